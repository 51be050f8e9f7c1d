"""Configs of one shape moved into the domains of another, and how far shapes of a family are apart."""

from __future__ import annotations

from collections.abc import Mapping
from math import log

import numpy as np

from ...common.outside import let_through
from ...measure.calibrate.calibrate import known_ceilings
from ...schedules.sketch import Sketch
from ...schedules.space import Candidate, ConfigValue, Parameter
from ...schedules.space_ops import population
from ...schedules.task import Task
from ...tensor.program import Program
from ..task_space import TaskSpace

SEED = 0
MOVES = 2000  # configs around one of another shape that are looked at


def moved_config(
    task: Task, sketch: Sketch, config: Mapping[str, ConfigValue]
) -> tuple[dict[str, ConfigValue], float] | None:
    """The valid config of this task that is nearest to one of another shape, and its predicted seconds.

    Each value moves to the nearest one of its domain. Where that is not valid (8 blocks of 7 tiles), values a few places
    further are taken: as few places in all as possible, and the fastest of those by the analytic model. None if the
    sketch does not fit the task, or nothing near is valid.
    """
    try:
        space = TaskSpace(task, known_ceilings(task.target, task.threads), (sketch,))
        places = [_by_nearness(parameter, config[parameter.name]) for parameter in space.config_spaces[0].parameters]
        draws = np.random.default_rng(SEED).geometric(0.7, (MOVES, len(places))) - 1
        draws[0] = 0
        steps = np.unique(np.minimum(draws, [len(place) - 1 for place in places]), axis=0).astype(np.int64)
        choices = [tuple(int(place[n]) for place, n in zip(places, row, strict=True)) for row in steps]
        moved = [Candidate(0, choice) for choice in choices]
        everything = population(0, moved, len(places))
        valid = space.valid(everything)
        if not valid.any():
            return None
        seconds, distance = space.prior(everything), steps.sum(axis=1)
        best = int(np.lexsort((seconds, distance, ~valid))[0])
        return space.config(moved[best]), float(seconds[best])
    except Exception as error:  # whatever the sketch and the config of another version or of a stranger lead to
        let_through(error)
        return None


def _by_nearness(parameter: Parameter, wanted: ConfigValue) -> list[int]:
    """Positions in a domain, the nearest value first. Of what has no order, only the same value is near."""
    values = parameter.values
    if not parameter.ordered:
        return [values.index(wanted)]
    return sorted(range(len(values)), key=lambda n: abs(float(values[n]) - float(wanted)))


def sizes(program: Program) -> list[str]:
    """The extents of each stage, for people."""
    return ["x".join(str(a.extent) for a in s.all_axes) for s in program.stages]


def shape_distance(a: Program, b: Program) -> float:
    """Says how far two shapes of a family are apart: the sum of the logarithms of the ratios of their extents."""
    ours = [axis.extent for stage in a.stages for axis in stage.all_axes]
    theirs = [axis.extent for stage in b.stages for axis in stage.all_axes]
    if len(ours) != len(theirs):
        return float("inf")
    return sum(abs(log(x / y)) for x, y in zip(ours, theirs, strict=True))
