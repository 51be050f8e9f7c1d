"""What a machine's drift does to times, taken out: contenders are timed beside a kernel that is known, the control.

Processors that others use too change their speed by a tenth within seconds. A candidate that was timed in a good moment then
leads a search for the rest of it (1009 x 1013 x 1019: one trial at 500 GFLOP/s, the next 170 below 455, 426 when measured
again). So whatever might lead is followed at once by a few runs of the control: by how much these are slower than they were,
all times of the candidate are divided. Times of one timer child are comparable therefore, in units of the moment when its
first control was timed. What is clearly slower than the best is taken as it is: its place does not matter so much.

The control is the first kernel that is not dropped, and gives way only to one that is much faster. What seems to be the best
has to prove it: both are timed in turn, and only the ratio counts. Else the luck of each best would be kept, and a moment in
which only the control was disturbed would make one.

A winner is named by a confirmation, whose contenders are timed interleaved and need no control.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from .timing import Repeat, Timing

KEPT = 4  # programs whose controls are kept: tasks that share a budget take turns
REPEATS = 3  # of the control, of which the fastest counts: noise only adds time
ROUNDS = 5  # in turn, of the control and of what seems to be the best
SAME = 0.02  # a difference below this is noise
NEAR = 1.15  # times the best: whatever is slower will not lead, whatever the machine does
FASTER = 0.8  # of the control's time: what takes less becomes the control


@dataclass(frozen=True, slots=True)
class _Control:
    repeat: Repeat
    runs: int  # in one repeat
    seconds: float  # of one run, in the units of the first control
    best: float  # seconds of the best so far, in these units

    def again(self) -> float:
        """Seconds of one run now."""
        return self.repeat(self.runs) / self.runs


class Drift:
    """The controls of some programs. `shortest`: seconds of a repeat, as in a `TimingPlan`."""

    def __init__(self, shortest: float) -> None:
        self._shortest = shortest
        self._controls: OrderedDict[str, _Control] = OrderedDict()

    def corrected(self, program: str, repeat: Repeat, timing: Timing) -> Timing:
        """The times, just taken by `repeat`, as they would have been when the program's first control was timed."""
        if timing.abandoned or not timing.trusted:
            return timing
        control = self._controls.get(program)
        if control is not None and timing.seconds > NEAR * control.best:
            return timing
        runs = max(round(self._shortest / timing.seconds), 1)
        if control is None:
            control = _Control(repeat, runs, timing.seconds, timing.seconds)
        else:
            timing = _in_its_units(timing, control)
            if timing.seconds < control.best:
                timing = _proven(repeat, runs, timing, control)
            if timing.seconds < control.best:
                control = replace(control, best=timing.seconds)
                if timing.seconds < FASTER * control.seconds:
                    control = _Control(repeat, runs, timing.seconds, timing.seconds)
        self._controls[program] = control
        self._controls.move_to_end(program)
        while len(self._controls) > KEPT:
            self._controls.popitem(last=False)
        return timing


def _in_its_units(timing: Timing, control: _Control) -> Timing:
    slower = min(control.again() for _ in range(REPEATS)) / control.seconds
    if abs(slower - 1.0) <= SAME:
        return timing
    return replace(timing, times=tuple(seconds / slower for seconds in timing.times))


def _proven(repeat: Repeat, runs: int, timing: Timing, control: _Control) -> Timing:
    """Times by the ratio to the control, round by round."""
    rounds = [(repeat(runs) / runs, control.again()) for _ in range(ROUNDS)]
    return replace(timing, times=tuple(control.seconds * seconds / known for seconds, known in rounds))
