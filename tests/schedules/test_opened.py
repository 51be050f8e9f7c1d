"""A sketch that was opened once gives, for any numbers, the loop tree that its steps give."""

from __future__ import annotations

import drafts
import numpy as np
import pytest

from tilesmith.schedules.extents import Extent, Sym
from tilesmith.schedules.loops import LoopTree
from tilesmith.schedules.outline import outline
from tilesmith.schedules.sketch import broken_conditions
from tilesmith.schedules.space import config
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target

TARGET = parse_target("x86:avx2")


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_tree_of_the_steps(seed: int) -> None:
    task = Task.of(drafts.draw(seed).program("f32"), TARGET, 2)
    rng = np.random.default_rng(seed)
    for sketch in task.sketches[:8]:
        config_space, opened = sketch.config_space(task.body, TARGET), sketch.opened(task.body, TARGET)
        for _ in range(3):
            values = config(config_space, [int(rng.integers(len(p.values))) for p in config_space.parameters])
            stepped = sketch.apply(task.body, TARGET, values)
            filled = opened.at({name: int(value) for name, value in values.items()})
            assert outline(filled) == outline(stepped)
            assert [s.box for s in filled.stages] == [s.box for s in stepped.stages]
            assert [s.hints for s in filled.stages] == [s.hints for s in stepped.stages]
            assert set(broken_conditions(stepped)) <= set(broken_conditions(filled))


def test_equal_extents_are_one() -> None:
    task = Task.of(drafts.draw(1).program("f32"), TARGET, 2)
    seen: dict[str, Sym] = {}
    for extent in extents(task.sketches[-1].opened(task.body, TARGET).tree):
        if isinstance(extent, Sym):
            assert seen.setdefault(str(extent), extent) is extent
    assert seen


def extents(tree: LoopTree) -> list[Extent]:
    return [x for stage in tree.stages for loop in stage.loops for x in (loop.extent, loop.stride)]
