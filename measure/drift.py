"""What a machine's drift does to times, taken out: contenders are timed beside a kernel that is known, the control.

Processors that others use too change their speed by a tenth within seconds. A candidate that was timed in a good moment then
leads a search for the rest of it (1009 x 1013 x 1019: one trial at 500 GFLOP/s, the next 170 below 455, 426 when measured
again). So whatever might lead is followed at once by a few runs of the control: by how much these are slower than they were,
all times of the candidate are divided. Times of one timer child are comparable therefore, in units of the moment when its
first control was timed. What is clearly slower than the best is taken as it is: its place does not matter so much.

The control is the first kernel that is not dropped, and gives way only to one that is much faster. How fast that is, both
tell in runs of their own: the time by which a kernel has just been found to be the best is a lucky one, and if each best
became the control, the luck of all of them would add up.

A winner is named by a confirmation, whose contenders are timed interleaved and need no control.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from statistics import median

from .timing import Repeat, Timing

KEPT = 4  # programs whose controls are kept: tasks that share a budget take turns
REPEATS = 3  # of the control
CHANGE = 5  # repeats of the old and the new control, in turn
FASTER = 0.8  # of the control's time: what takes less becomes the control
SAME = 0.02  # a difference below this is noise


@dataclass(frozen=True, slots=True)
class _Control:
    repeat: Repeat
    runs: int  # in one repeat
    seconds: float  # of one run, in the units of the first control

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
        if control is None:
            control = _Control(repeat, self._runs(timing.seconds), timing.seconds)
        else:
            slower = median(control.again() for _ in range(REPEATS)) / control.seconds
            if abs(slower - 1.0) > SAME:
                timing = replace(timing, times=tuple(seconds / slower for seconds in timing.times))
            if timing.seconds < FASTER * control.seconds:
                control = self._changed(control, _Control(repeat, self._runs(timing.seconds), timing.seconds))
        self._controls[program] = control
        self._controls.move_to_end(program)
        while len(self._controls) > KEPT:
            self._controls.popitem(last=False)
        return timing

    def _runs(self, seconds: float) -> int:
        return max(round(self._shortest / seconds), 1)

    @staticmethod
    def _changed(old: _Control, new: _Control) -> _Control:
        """The new control, its time in the units of the old one."""
        both = [(old.again(), new.again()) for _ in range(CHANGE)]
        return replace(new, seconds=old.seconds * median(fresh / known for known, fresh in both))
