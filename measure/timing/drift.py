"""What a machine's drift does to times, taken out: contenders are timed beside a kernel that is known, the control.

Processors that others use too change their speed: by 3% from one tenth of a second to the next, as their clock goes up or down
a step; by a tenth within seconds; by 35% within milliseconds, where a neighbour's thread shares the core. A candidate that was
timed in a good moment then leads a search for the rest of it (1009 x 1013 x 1019: one trial at 500 GFLOP/s, the next 170 below
455, 426 when measured again). So whatever might lead is timed once more in turn with the control, and what counts is its ratio
to the control in the same moment. Times can be compared therefore: they are in units of the moment when the first control was
timed. What is clearly slower than the best is divided by how much slower the machine was of late: its place does
not matter so much. Nothing is abandoned unless it is too slow even for the slowest moment of late.

Turns that disagree are followed by more. On two shared cores, where one run differs from the next by 15 to 24% (standard
deviation), the middle ratio of 3 turns is off by 3 to 10%, that of 25 by 1 to 3%; it was better than the ratio of means, of
medians, of lower quartiles or of the fastest.

The control is the first kernel that is not dropped, or one that an earlier timer child had timed (reference_kernels.py), and
gives way only to one that is much faster. What seems to be the best takes more turns, for the luck of each best would be kept;
and a moment in which only the control was disturbed must not make one. What is so much faster than the best that no drift
explains it needs no turns. What takes long, or reads much that the control has in another place, has no control: turns would
cost more than the trial, or tell of cold caches (8x4096x4096, B constant: a control at half its speed named a best of 100
GB/s).

A winner is named by a confirmation, whose contenders are timed interleaved and need no control.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic

from .method import Repeat, Timing, doubt

KEPT = 4  # programs whose controls are kept: tasks that share a budget take turns
RECENT = 1.5  # seconds within which a turn of the control still tells how fast the machine is
LOOKS = 5  # the latest, of which the middle one counts
LEAST_RUNS = 2  # in one turn, of which the faster counts: the first finds the caches full of another kernel's data
LARGEST = 2.5  # factor by which a machine drifts (two threads on one core: 2); more is a control that was disturbed
# Bytes of constants above which there is no control: each kernel has a copy, and the control's is cold. Where constants are
# cold for all there is one.
OWN = 4 << 20
TURNS = 3  # of the control and a contender, if they agree
PROOF = 5  # of the control and of what seems to be the best, if they agree
MOST_TURNS, MOST_SECONDS = 25, 0.1  # if they do not; the seconds count after PROOF turns
AGREED = 0.012  # doubt of turns that agree
ROUGH = 0.025  # doubt of turns that are enough for what is not the best, whatever they are in doubt about
LUCK = 0.03  # what seems to be the best may be so much worse by its fastest turns than by the middle one
MOST_LUCK = 0.1  # the same after the most turns: their fastest are uncertain, too
NEAR = 1.15  # times the best: whatever is slower will not lead, whatever the machine does
FASTER = 0.8  # of the control's time: what takes less becomes the control

Turn = tuple[float, float]  # seconds of one run of a contender and of the control, one after the other


@dataclass
class _Control:
    repeat: Repeat
    runs: int  # in one turn
    seconds: float  # of one run, in the units of the first control
    best: float  # seconds of the best so far, in these units
    looks: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LOOKS))  # (when, how much slower)

    def again(self, now: float) -> float:
        """Seconds of one run now."""
        seconds = self.repeat(self.runs) / self.runs
        self.looks.append((now, seconds / self.seconds))
        return seconds

    def slower(self, now: float) -> float | None:
        """Says how much slower the machine is than it was; None where nothing is known."""
        recent = [slower for when, slower in self.looks if now - when <= RECENT]
        if not recent:
            return None
        return found if _is_drift(found := median(recent)) else 1.0

    def replaced(self, repeat: Repeat, runs: int, seconds: float) -> None:
        """Another kernel becomes the control; what is known of the machine stays."""
        self.repeat, self.runs, self.seconds = repeat, runs, seconds


class Drift:
    """The controls of some programs. `shortest`: seconds of a turn, as of a repeat in a `TimingPlan`; `now`: a clock."""

    def __init__(self, shortest: float, now: Callable[[], float] = monotonic) -> None:
        self._shortest, self._now = shortest, now
        self._controls: OrderedDict[str, _Control] = OrderedDict()

    def begin(self, program: str, repeat: Repeat, timing: Timing, seconds: float, best: float) -> bool:
        """The program's control is a kernel, timed just now, that took `seconds` in the units that are meant, in which the
        program's best took `best`. False where it tells nothing about these units."""
        fits = can_be_control(timing.seconds) and _is_drift(timing.seconds / seconds)
        if fits:
            self._keep(program, _Control(repeat, self._runs(timing), seconds, min(seconds, best)))
        return fits

    def knows(self, program: str) -> bool:
        """Says whether a program has a control, so that its contenders will be timed once more."""
        return program in self._controls

    def pace(self, program: str) -> float:
        """Says how many times slower the machine may be now than it was, 1 to LARGEST: the worst of the last looks at the
        control, and of one now. Where neighbours share the cores, the next look tells of another moment."""
        control, now = self._controls[program], self._now()
        control.again(now)
        return min(max(1.0, *(slower for when, slower in control.looks if now - when <= RECENT)), LARGEST)

    def corrected(self, program: str, repeat: Repeat, timing: Timing) -> Timing:
        """The times, just taken by `repeat`, as they would have been when the program's first control was timed."""
        if timing.abandoned or not timing.trusted:
            return timing
        control = self._controls.get(program)
        if control is None:
            if can_be_control(timing.seconds):
                self._keep(program, _Control(repeat, self._runs(timing), timing.seconds, timing.seconds))
            return timing
        known = control.slower(self._now())
        if timing.seconds > NEAR * LARGEST * control.best:
            return _divided(timing, known or 1.0)
        if timing.seconds < FASTER / LARGEST * control.best:
            timing = _divided(timing, known or 1.0)
        else:
            timing = self._in_turn(repeat, timing, control)
        control.best = min(control.best, timing.seconds)
        if timing.seconds < FASTER * control.seconds:
            control.replaced(repeat, self._runs(timing), timing.seconds)
        self._keep(program, control)
        return timing

    def _in_turn(self, repeat: Repeat, timing: Timing, control: _Control) -> Timing:
        """Times by the ratio to the control, turn by turn."""
        runs = self._runs(timing)
        turns: list[Turn] = []
        while not _enough(turns, control):
            turns.append((repeat(runs) / runs, control.again(self._now())))
        if not _is_drift(_known(turns) / control.seconds):
            return timing
        unit, luck = control.seconds, _luck(turns)
        if unit * _ratio(turns) < control.best and luck > 1.0 + (MOST_LUCK if _many(turns, control) else 0.0):
            unit *= luck
        return replace(timing, times=tuple(unit * seconds / known for seconds, known in turns))

    def _runs(self, timing: Timing) -> int:
        return max(round(self._shortest / timing.seconds), LEAST_RUNS)

    def _keep(self, program: str, control: _Control) -> None:
        self._controls[program] = control
        self._controls.move_to_end(program)
        while len(self._controls) > KEPT:
            self._controls.popitem(last=False)


def can_be_control(seconds: float) -> bool:
    """Says whether turns with what takes so long tell of one moment: they are over before the machine has changed."""
    return 2 * PROOF * LEAST_RUNS * seconds <= RECENT


def _is_drift(slower: float) -> bool:
    return 1.0 / LARGEST <= slower <= LARGEST


def _divided(timing: Timing, slower: float) -> Timing:
    return timing if slower == 1.0 else replace(timing, times=tuple(seconds / slower for seconds in timing.times))


def _enough(turns: Sequence[Turn], control: _Control) -> bool:
    """Says whether these turns say what they can."""
    count = len(turns)
    if count < TURNS or _many(turns, control):
        return count >= TURNS
    if not _is_drift(_known(turns) / control.seconds):
        return False
    seconds, doubtful = control.seconds * _ratio(turns), doubt(_ratios(turns))
    if seconds * (1.0 - 2.0 * doubtful) > (control.best if doubtful <= ROUGH else NEAR * control.best):
        return True
    return doubtful <= AGREED and (seconds >= control.best or (count >= PROOF and _luck(turns) <= 1.0 + LUCK))


def _many(turns: Sequence[Turn], control: _Control) -> bool:
    """Says whether more of them cost too much."""
    spent = 2 * len(turns) * control.runs * turns[0][1]
    return len(turns) >= MOST_TURNS or (len(turns) >= PROOF and spent > MOST_SECONDS)


def _ratios(turns: Sequence[Turn]) -> list[float]:
    """Returns the ratios of a contender to the control, turn by turn."""
    return [seconds / known for seconds, known in turns]


def _ratio(turns: Sequence[Turn]) -> float:
    """The middle one of these."""
    return median(_ratios(turns))


def _known(turns: Sequence[Turn]) -> float:
    """Returns the median seconds of the kernel that is known."""
    return median(known for _, known in turns)


def _luck(turns: Sequence[Turn]) -> float:
    """Says by how much the ratio of the fastest turns is worse than that of the middle one: of a control that was disturbed in
    most of them it is, and would make a best that nothing reaches."""
    return min(seconds for seconds, _ in turns) / min(known for _, known in turns) / _ratio(turns)
