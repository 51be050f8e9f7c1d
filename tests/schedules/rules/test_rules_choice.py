"""Fast convolutions in bands: what runs in a band, code at sizes that nothing divides, counts and plans."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.planned import disagreements
from helpers.lowering.truth import analysed, as_lowered, assert_correct, counted, draw_choices, exact_inputs
from tilesmith.codegen.lower import attached
from tilesmith.common.errors import InternalError
from tilesmith.cost_model.analytic import predict
from tilesmith.schedules.auto import derive
from tilesmith.schedules.boxes import BoxAxis
from tilesmith.schedules.loops import LoopTree, Scope
from tilesmith.schedules.plan.stage import plan_of
from tilesmith.schedules.sketch import Sketch, valid
from tilesmith.schedules.space import ConfigValue, config
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

AVX512, AVX2 = parse_target("x86:avx512"), parse_target("x86:avx2")
SIZES = [(1, 22, 9, 4), (1, 9, 6, 2), (3, 9, 5, 4)]  # images, rows, columns; outputs of a tile each way
BANDED = ("t6", "t7", "t9", "t10", "t11")  # transforms of data, products, transforms of results
Values = dict[str, ConfigValue]


def convolution(n: int, h: int, w: int, c: int = 16, o: int = 16) -> Program:
    return body_of(ops.conv2d(n, c, h, w, o, padding=1, layout="nhwc", constants=("W",)))


def banded(program: Program, tile: int) -> Sketch:
    (sketch,) = [s for s in derive(program) if {("t13 in bands", True), ("t0 fast", tile)} <= set(s.variants)]
    return sketch


def configs(program: Program, sketch: Sketch, count: int) -> list[Values]:
    """Some valid configs: in bands of one row of tiles, of two, and of any number."""
    return [
        {name: number + 1 if name.endswith(".band") and number < 2 else value for name, value in values.items()}
        for number, values in enumerate(some_configs(program, sketch, count))
    ]


@pytest.mark.parametrize(("n", "h", "w", "tile"), SIZES)
def test_bands_are_right_with_one_thread_and_with_two(n: int, h: int, w: int, tile: int) -> None:
    program = convolution(n, h, w, 17, 18)
    sketch = banded(program, tile)
    for number, values in enumerate(configs(program, sketch, 2)[: 2 if n == 1 else 1]):
        assert_runs(program, sketch.apply(program, HOST, values), number)


def _complaint(program: Program, tree: LoopTree, target: Target) -> str | None:
    """What the code of a tree does otherwise than is said of what runs in a band: results, trips, points, bytes, plans."""
    inputs = exact_inputs(program, 1)
    run = as_lowered(assert_correct(program, tree, target, inputs), program, tree, target, inputs)
    said, seen = analysed(tree), counted(tree, run)
    wrong = {key: (said[key], seen[key]) for key in said if key[1].split(".")[0] in BANDED and said[key] != seen[key]}
    planned = disagreements(tree, plan_of(tree, gpu=False), target)
    return str((wrong, planned)) if wrong or planned else None


@pytest.mark.parametrize("seed", range(4))
def test_bands_are_counted_and_planned(seed: int) -> None:
    random = Random(seed)
    n, h, w = random.choice([1, 2]), random.randint(5, 9), random.randint(4, 6)
    program, target = convolution(n, h, w), random.choice([AVX2, AVX512])
    sketch = banded(program, random.choice([2, 4]))
    for values in configs(program, sketch, 3)[seed % 3 :: 3]:
        assert _complaint(program, sketch.apply(program, target, values), target) is None


def test_all_candidates_are_predicted_as_each_alone() -> None:
    program = convolution(2, 30, 26)
    sketch = banded(program, 4)
    space, ceilings = sketch.config_space(program, AVX2), default_ceilings(AVX2, 2)
    choices = draw_choices(space, Random(1), 24)
    together = sketch.apply_population(program, AVX2, space, choices)
    seconds = predict(together, AVX2, 2, ceilings, len(choices))
    good = np.flatnonzero(valid(together, len(choices)))
    assert len(good) > 3
    for row in good[:4]:
        alone = sketch.apply(program, AVX2, config(space, choices[row]))
        assert predict(alone, AVX2, 2, ceilings, 1)[0] == pytest.approx(seconds[row], rel=1e-12)


def test_a_band_has_memory_of_its_own() -> None:
    """Less than all tiles would need, and no more than its own."""
    program = convolution(1, 40, 24)
    sketch = banded(program, 4)
    space = sketch.config_space(program, AVX2)
    for rows in (1, 2, 5):
        values = {**config(space, space.default), "t13.a0.band": rows}
        plan = plan_of(sketch.apply(program, AVX2, values), gpu=False)
        for name in ("t7", "t9"):
            (storage,) = plan.stages[name].storage
            assert storage.scope in (Scope.STACK, Scope.SCRATCH)
            assert 6 * rows <= int(storage.shape[2]) < 6 * (rows + 1) + 6


def test_what_others_read_is_not_done_in_bands() -> None:
    """All of the filters have to be there, once."""
    text = ops.conv2d(1, 16, 20, 20, 16, padding=1, layout="nhwc")
    assert not any(dict(s.variants).get("t13 in bands") for s in derive(body_of(text)))


def _a_row_short(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BoxAxis.extent
    monkeypatch.setattr(BoxAxis, "extent", lambda self, sizes: right(self, sizes) - (self.times > 1) * self.times)


def _of_the_first_band(monkeypatch: pytest.MonkeyPatch) -> None:
    right = attached.times
    monkeypatch.setattr(attached, "times", lambda expr, factor: right(expr, 0 if factor == 3 else factor))


@pytest.mark.parametrize("plant", [_a_row_short, _of_the_first_band])
def test_a_wrong_band_is_caught(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    program = convolution(1, 9, 11)
    sketch = banded(program, 4)
    space = sketch.config_space(program, AVX512)
    values = config(space, space.default)
    assert _complaint(program, sketch.apply(program, AVX512, values), AVX512) is None
    plant(monkeypatch)
    with pytest.raises((AssertionError, InternalError, IndexError)):
        assert _complaint(program, sketch.apply(program, AVX512, values), AVX512) is None
