"""What a machine's drift does to times, taken out: contenders are timed beside the best kernel so far, the control.

Processors that others use too change their speed by a tenth within seconds. A candidate that was timed in a good moment then
leads a search for the rest of it (1009 x 1013 x 1019: one trial at 500 GFLOP/s, the next 170 below 455, 426 when measured
again). So whatever might lead is followed at once by a few runs of the control: by how much these are slower than they were,
all times of the candidate are divided. Times of one timer child are comparable therefore, in units of the moment when its
first control was timed. What is clearly slower than the best is taken as it is: its place does not matter so much.

A winner is named by a confirmation, whose contenders are timed interleaved and need no control.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from statistics import median

from .timing import Repeat, Timing

KEPT = 4  # programs whose controls are kept: tasks that share a budget take turns
REPEATS = 3  # of the control
SAME = 0.02  # a difference below this is noise


@dataclass(frozen=True, slots=True)
class _Control:
    repeat: Repeat
    runs: int  # in one repeat
    seconds: float  # of one run, when it became the control


class Drift:
    """The controls of some programs. `shortest`: seconds of a repeat, as in a `TimingPlan`."""

    def __init__(self, shortest: float) -> None:
        self._shortest = shortest
        self._controls: OrderedDict[str, _Control] = OrderedDict()

    def corrected(self, program: str, repeat: Repeat, timing: Timing) -> Timing:
        """The times as they would have been when the program's first control was timed; just taken, by `repeat`.

        Where it is the fastest so far it becomes the control.
        """
        if timing.abandoned or not timing.trusted:
            return timing
        control = self._controls.get(program)
        if control is not None:
            slower = median(control.repeat(control.runs) for _ in range(REPEATS)) / control.runs / control.seconds
            if abs(slower - 1.0) > SAME:
                timing = replace(timing, times=tuple(seconds / slower for seconds in timing.times))
        if control is None or timing.seconds < control.seconds:
            runs = max(round(self._shortest / timing.seconds), 1)
            self._controls[program] = _Control(repeat, runs, timing.seconds)
        self._controls.move_to_end(program)
        while len(self._controls) > KEPT:
            self._controls.popitem(last=False)
        return timing
