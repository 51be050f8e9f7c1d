"""What the analytic model of this version says of measured candidates: seconds, and bytes that come into each cache.

What a search's learned model said of a trial is not kept; its figures by batch are (tuner/search/rounds.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.errors import TilesmithError
from ...cost_model.analytic import predict, total_seconds
from ...cost_model.cpu.analysis import Analysis, analyse
from ...cost_model.footprint import total_of
from ...cost_model.populations import for_each_plan
from ...schedules.loops import LoopTree
from ...schedules.plan.stage import Plan
from ...schedules.sketch import Sketch
from ...schedules.task import normalised
from ...targets.ceilings import Ceilings
from ...targets.target import Target
from ...tensor.program import Program
from ..records.data import Record


@dataclass(frozen=True, slots=True)
class Modelled:
    """Says of one candidate what the analytic model does. `moved`: bytes into each cache, nearest first; none on GPUs."""

    seconds: float
    moved: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """Says where candidates of a program run."""

    program: Program
    target: Target
    threads: int
    ceilings: Ceilings


def modelled(records: Sequence[Record], sketches: Mapping[str, Sketch], setting: Setting) -> dict[int, Modelled]:
    """Returns what the model says of each record, by its number: of those whose sketch and config this version understands.

    `sketches`: by key, as a database has them.
    """
    members: dict[str, list[tuple[int, list[int]]]] = defaultdict(list)
    for record in records:
        sketch = sketches.get(record.trial.sketch)
        numbers = numbers_of_config(sketch, record.config) if sketch is not None else None
        if numbers is not None:
            members[record.trial.sketch].append((record.id, numbers))
    found: dict[int, Modelled] = {}
    for key, rows in members.items():
        try:
            table = _table(sketches[key], np.array([numbers for _, numbers in rows], np.int64), len(rows), setting)
        except (TilesmithError, ValueError, ArithmeticError, LookupError, TypeError):  # a sketch may come from anybody
            continue
        for (number, _), row in zip(rows, table.tolist(), strict=True):
            if all(map(isfinite, row)):
                found[number] = Modelled(row[0], tuple(row[1:]))
    return found


def numbers_of_config(sketch: Sketch, config: Mapping[str, int | str | bool]) -> list[int] | None:
    """The numbers of a sketch's tunables; None where the config lacks one, or has one that the sketch forbids."""
    numbers = []
    for tunable in sketch.tunables:
        value = config.get(tunable.name)
        if not isinstance(value, int) or not tunable.allows(int(value)):
            return None
        numbers.append(int(value))
    return numbers


def _table(sketch: Sketch, numbers: NDArray[np.int64], count: int, setting: Setting) -> NDArray[Any]:
    """float64[count, 1 + caches]: seconds and bytes."""
    target, threads, ceilings = setting.target, setting.threads, setting.ceilings
    opened = sketch.opened(normalised(setting.program), target)
    columns = numbers.reshape(count, len(sketch.tunables)).T
    tree = opened.at({tunable.name: column for tunable, column in zip(sketch.tunables, columns, strict=True)})
    if target.is_gpu:
        return predict(tree, target, threads, ceilings, count)[:, None]

    def walk(part: LoopTree, plan: Plan, rows: int) -> NDArray[Any]:
        analysis = analyse(part, target, threads, plan)
        figures = [total_seconds(analysis, target, threads, ceilings), *_moved(analysis)]
        return np.stack([np.broadcast_to(np.asarray(one, np.float64), (rows,)) for one in figures], axis=1)

    return for_each_plan(tree, False, count, walk)


def _moved(analysis: Analysis) -> list[Any]:
    return [total_of([nest.moved[level].total for nest in analysis.nests]) for level, _ in enumerate(analysis.caches)]
