"""What a machine's drift does to times, taken out: contenders are timed beside a kernel that is known, the control.

Processors that others use too change their speed by a tenth within seconds. A candidate that was timed in a good moment then
leads a search for the rest of it (1009 x 1013 x 1019: one trial at 500 GFLOP/s, the next 170 below 455, 426 when measured
again). So whatever might lead is followed at once by a run of the control, and all its times are divided by how much slower
than it was the control is now: the median of the last few looks at it, as one alone is as noisy as what it should correct.
Times of one timer child are comparable therefore, in units of the moment when its first control was timed. What is clearly
slower than the best costs no look: its place does not matter so much.

The control is the first kernel that is not dropped, and gives way only to one that is much faster. What seems to be the best
has to prove it: both are timed in turn, and only the ratio counts. Else the luck of each best would be kept, and a moment in
which only the control was disturbed would make one. What is so much faster than the best that no drift explains it needs no
proof. What takes long, or reads much that the control has in another place, has no control: looks would cost more than the
trial, or tell of cold caches (8x4096x4096, B constant: a control at half its speed named a best of 100 GB/s).

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
RECENT = 1.5  # seconds within which a look at the control still tells how fast the machine is
LOOKS = 3  # recent ones at least, of which the middle one counts: noise and a disturbed moment are no drift
MOST = 5  # the latest, that are asked
REPEATS = 2  # in a row, of which the faster one counts: the first finds the caches full of another kernel's data
LARGEST = 1.25  # factor by which a machine drifts; what seems more is a control that was disturbed, and says nothing
OWN = (
    4 << 20
)  # bytes of constants, above which there is no control: each kernel has its copy, and the control's is cold
ROUNDS = 5  # in turn, of the control and of what seems to be the best
SAME = 0.02  # a difference below this is noise
NEAR = 1.15  # times the best: whatever is slower will not lead, whatever the machine does
FASTER = 0.8  # of the control's time: what takes less becomes the control


@dataclass
class _Control:
    repeat: Repeat
    runs: int  # in one repeat
    seconds: float  # of one run, in the units of the first control
    best: float  # seconds of the best so far, in these units
    looks: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=MOST))  # (when, how much slower)

    def again(self) -> float:
        """Seconds of one run now."""
        return _fastest(self.repeat, self.runs)

    def look(self, now: Callable[[], float]) -> None:
        """Looks once, or as often as it takes to tell the machine's speed, but no more than that at once."""
        for _ in range(LOOKS):
            self.looks.append((now(), self.again() / self.seconds))
            if len(self.recent(now())) >= LOOKS:
                return

    def recent(self, now: float) -> list[float]:
        """What was seen of late."""
        return [slower for when, slower in self.looks if now - when <= RECENT]

    def slower(self, now: float) -> float:
        """How much slower the machine is than it was, as far as is known; else 1."""
        found = median(self.recent(now) or (1.0,))
        return found if abs(found - 1.0) > SAME and _is_drift(found) else 1.0

    def replaced(self, repeat: Repeat, runs: int, seconds: float) -> None:
        """Another kernel becomes the control; what is known of the machine stays."""
        self.repeat, self.runs, self.seconds = repeat, runs, seconds


class Drift:
    """The controls of some programs. `shortest`: seconds of a repeat, as in a `TimingPlan`; `now`: a clock for their age."""

    def __init__(self, shortest: float, now: Callable[[], float] = monotonic) -> None:
        self._shortest, self._now = shortest, now
        self._controls: OrderedDict[str, _Control] = OrderedDict()

    def limit(self, program: str, limit: float) -> float:
        """The best time known as it would be now."""
        control = self._controls.get(program)
        return limit if control is None else limit * control.slower(self._now())

    def corrected(self, program: str, repeat: Repeat, timing: Timing) -> Timing:
        """The times, just taken by `repeat`, as they would have been when the program's first control was timed."""
        if timing.abandoned or not timing.trusted:
            return timing
        control = self._controls.get(program)
        if control is None:
            if 2 * ROUNDS * REPEATS * timing.seconds <= RECENT:  # else the machine would change before a proof is over
                self._keep(program, _Control(repeat, self._runs(timing), timing.seconds, timing.seconds))
            return timing
        known = control.slower(self._now())
        if timing.seconds > NEAR * known * control.best:
            return _divided(timing, known)
        if max(timing.seconds, timing.seconds / known) < FASTER * control.best:
            timing = _divided(timing, known)
        else:
            control.look(self._now)
            timing = _divided(timing, control.slower(self._now()))
            if timing.seconds < control.best:
                timing = _proven(repeat, self._runs(timing), timing, control)
        control.best = min(control.best, timing.seconds)
        if timing.seconds < FASTER * control.seconds:
            control.replaced(repeat, self._runs(timing), timing.seconds)
        self._keep(program, control)
        return timing

    def _runs(self, timing: Timing) -> int:
        return max(round(self._shortest / timing.seconds), 1)

    def _keep(self, program: str, control: _Control) -> None:
        self._controls[program] = control
        self._controls.move_to_end(program)
        while len(self._controls) > KEPT:
            self._controls.popitem(last=False)


def _fastest(repeat: Repeat, runs: int) -> float:
    """Seconds of one run."""
    return min(repeat(runs) for _ in range(REPEATS)) / runs


def _is_drift(slower: float) -> bool:
    return 1.0 / LARGEST <= slower <= LARGEST


def _divided(timing: Timing, slower: float) -> Timing:
    return timing if slower == 1.0 else replace(timing, times=tuple(seconds / slower for seconds in timing.times))


def _proven(repeat: Repeat, runs: int, timing: Timing, control: _Control) -> Timing:
    """Times by the ratio to the control, round by round. Their middle is no better than the ratio of the fastest rounds: else
    a control that was disturbed in most of them would make a best that nothing reaches."""
    rounds = [(_fastest(repeat, runs), control.again()) for _ in range(ROUNDS)]
    ratios = [seconds / known for seconds, known in rounds]
    if not _is_drift(median(known for _, known in rounds) / control.seconds):
        return timing
    fastest = min(seconds for seconds, _ in rounds) / min(known for _, known in rounds)
    unit = control.seconds * max(fastest / median(ratios), 1.0)
    return replace(timing, times=tuple(unit * ratio for ratio in ratios))
