"""What a machine's drift does to times, taken out: contenders are timed beside a kernel that is known, the control.

Processors that others use too change their speed: by 3% from one tenth of a second to the next, as their clock goes up or down
a step, and by a tenth within seconds. A candidate that was timed in a good moment then leads a search for the rest of it
(1009 x 1013 x 1019: one trial at 500 GFLOP/s, the next 170 below 455, 426 when measured again). So whatever might lead is timed
once more in turn with the control, and what counts is its ratio to the control in the same moment. Times of one timer child are
comparable therefore, in units of the moment when its first control was timed. What is clearly slower than the best is divided
by how much slower the machine was of late: its place does not matter so much.

The control is the first kernel that is not dropped, and gives way only to one that is much faster. What seems to be the best
takes more turns, for the luck of each best would be kept; and a moment in which only the control was disturbed must not make
one. What is so much faster than the best that no drift explains it needs no turns. What takes long, or reads much that the
control has in another place, has no control: turns would cost more than the trial, or tell of cold caches (8x4096x4096, B
constant: a control at half its speed named a best of 100 GB/s).

A winner is named by a confirmation, whose contenders are timed interleaved and need no control.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic

from .timing import Repeat, Timing

KEPT = 4  # programs whose controls are kept: tasks that share a budget take turns
RECENT = 1.5  # seconds within which a turn of the control still tells how fast the machine is
MOST = 5  # the latest, of which the middle one counts
LEAST_RUNS = 2  # in one turn, of which the faster counts: the first finds the caches full of another kernel's data
DISTURBED = 1.1  # factor by which the control is slower when nothing should be abandoned
LARGEST = 1.25  # factor by which a machine drifts; what seems more is a control that was disturbed, and says nothing
OWN = 4 << 20  # bytes of constants, above which there is no control: each kernel has a copy, and the control's is cold
TURNS = 3  # of the control and a contender
PROOF = 5  # of the control and of what seems to be the best
NEAR = 1.15  # times the best: whatever is slower will not lead, whatever the machine does
FASTER = 0.8  # of the control's time: what takes less becomes the control

Turn = tuple[float, float]  # seconds of one run of a contender and of the control, one after the other


@dataclass
class _Control:
    repeat: Repeat
    runs: int  # in one turn
    seconds: float  # of one run, in the units of the first control
    best: float  # seconds of the best so far, in these units
    looks: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=MOST))  # (when, how much slower)

    def again(self, now: float) -> float:
        """Seconds of one run now."""
        seconds = self.repeat(self.runs) / self.runs
        self.looks.append((now, seconds / self.seconds))
        return seconds

    def slower(self, now: float) -> float | None:
        """How much slower the machine is than it was; None where nothing is known."""
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

    def knows(self, program: str) -> bool:
        """Whether a program has a control, so that its contenders will be timed once more."""
        return program in self._controls

    def disturbed(self, program: str) -> bool:
        """Whether the machine is so slow now that what was abandoned deserves another chance: one look at the control."""
        control = self._controls[program]
        return control.again(self._now()) > DISTURBED * control.seconds

    def limit(self, program: str, limit: float) -> float:
        """The best time known as it would be now."""
        control = self._controls.get(program)
        return limit if control is None else limit * (control.slower(self._now()) or 1.0)

    def corrected(self, program: str, repeat: Repeat, timing: Timing) -> Timing:
        """The times, just taken by `repeat`, as they would have been when the program's first control was timed."""
        if timing.abandoned or not timing.trusted:
            return timing
        control = self._controls.get(program)
        if control is None:
            # what takes long is over only when the machine has changed
            if 2 * PROOF * LEAST_RUNS * timing.seconds <= RECENT:
                self._keep(program, _Control(repeat, self._runs(timing), timing.seconds, timing.seconds))
            return timing
        known = control.slower(self._now())
        if timing.seconds > NEAR * (known or LARGEST) * control.best:
            return _divided(timing, known or 1.0)
        if max(timing.seconds, timing.seconds / (known or 1.0)) < FASTER * control.best:
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
        turns = [self._turn(repeat, runs, control) for _ in range(TURNS)]
        if not _is_drift(median(known for _, known in turns) / control.seconds):
            return timing
        times = [control.seconds * seconds / known for seconds, known in turns]
        if median(times) >= control.best:
            return replace(timing, times=tuple(times))
        turns += [self._turn(repeat, runs, control) for _ in range(PROOF - TURNS)]
        return replace(timing, times=_proven(turns, control.seconds))

    def _turn(self, repeat: Repeat, runs: int, control: _Control) -> Turn:
        return repeat(runs) / runs, control.again(self._now())

    def _runs(self, timing: Timing) -> int:
        return max(round(self._shortest / timing.seconds), LEAST_RUNS)

    def _keep(self, program: str, control: _Control) -> None:
        self._controls[program] = control
        self._controls.move_to_end(program)
        while len(self._controls) > KEPT:
            self._controls.popitem(last=False)


def _is_drift(slower: float) -> bool:
    return 1.0 / LARGEST <= slower <= LARGEST


def _divided(timing: Timing, slower: float) -> Timing:
    return timing if slower == 1.0 else replace(timing, times=tuple(seconds / slower for seconds in timing.times))


def _proven(turns: list[Turn], unit: float) -> tuple[float, ...]:
    """Times of a best, in the control's `unit`. Their middle is no better than the ratio of the fastest turns: else a control
    that was disturbed in most of them would make a best that nothing reaches."""
    ratios = [seconds / known for seconds, known in turns]
    fastest = min(seconds for seconds, _ in turns) / min(known for _, known in turns)
    unit *= max(fastest / median(ratios), 1.0)
    return tuple(unit * ratio for ratio in ratios)
