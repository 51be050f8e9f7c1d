"""Arithmetic that was recorded once gives for every population what it gives on arrays."""

from __future__ import annotations

from typing import Any

import drafts
import numpy as np
import pytest
from numpy.typing import NDArray

from tilesmith.cost_model.analytic import predict
from tilesmith.cost_model.features import features
from tilesmith.cost_model.sketch_model import SketchModel
from tilesmith.schedules.recording import ROWS, TABLE, Recording, elementwise, row_of
from tilesmith.schedules.sketch import valid
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import PAST, Ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops

CURVE = ((32e3, 500e9), (1e6, 200e9), (1e9, 30e9))
STREAMS = {"read": CURVE, "copy": CURVE, "copy" + PAST: CURVE}
CEILINGS = Ceilings(flops={"f32": 400e9}, bandwidth=CURVE, threads=2, streams=STREAMS)


def drawn(recording: Recording, count: int) -> NDArray[np.int32]:
    sizes = [len(domain) for domain in recording.domains]
    return (np.random.default_rng(1).random((count, len(sizes))) * sizes).astype(np.int32)


@pytest.mark.parametrize("count", [0, 1, 5, ROWS + 3])
def test_recorded_arithmetic_is_arithmetic(count: int) -> None:
    domains = {"a": tuple(range(1, 40)), "b": tuple(range(2, 60)), "c": (1, 2, 4), "alone": (7,)}
    recording = Recording(domains)

    def work(a: Any, b: Any, c: Any, alone: Any) -> list[object]:
        ratio = np.ceil(-(-a // b) * 1.5 / np.maximum(c, 2)) ** 0.5  # of more combinations than a table has
        return [
            a + 1, 2 - a, a % c, np.where(a * b > 30, ratio, 0.0), (a <= b) & (c > 1), 1 * alone, 1.0 * c,
            np.where(np.where(c > 2, 1.0, 0.0) > 0, np.log2(1.0 * a), 5 / b), np.less_equal(a, 3).astype(np.int64), 4.5,
            a == b, a != 3, c == 7, np.interp(np.log(1.0 * b), np.array([0.0, 2.0, 9.0]), np.array([5.0, 7.0, 1.0])),
        ]  # fmt: skip

    assert TABLE < 39 * 58
    results = work(**recording.columns())
    choices = drawn(recording, count)
    wanted = work(**{name: np.array(values)[choices[:, n]] for n, (name, values) in enumerate(domains.items())})
    for found, one in zip(recording.player(results).play(choices), wanted, strict=True):
        assert found.shape == (count,)
        np.testing.assert_array_equal(found, one)
        assert found.dtype == np.asarray(one).dtype


def test_what_depends_on_many_tunables_of_one_value_is_a_table() -> None:
    """NumPy has arrays of 64 dimensions at most, and a program of many stages has more tunables than that."""
    recording = Recording({f"t{n}": (n,) if n else (1, 2) for n in range(200)})
    total = sum(recording.columns().values())
    choices = np.zeros((2, 200), dtype=np.int32)
    choices[1, 0] = 1
    (found,) = recording.player([total]).play(choices)
    np.testing.assert_array_equal(found, [sum(range(200)) + 1, sum(range(200)) + 2])


def test_equal_operations_are_one_and_the_truth_of_a_column_is_refused() -> None:
    recording = Recording({"a": (1, 2)})
    a = recording.columns()["a"]
    assert a + 1 is a + 1
    assert a * 1 is not a * 1.0  # another kind of number
    with pytest.raises(TypeError, match="use np"):
        bool(a < 2)


def test_what_changes_nothing_leaves_no_step() -> None:
    """Sums begin with 0.0 and products with 1.0. A whole number times 1.0 is a float, and so a step."""
    recording = Recording({"a": (1, 2, 3)})
    whole = recording.columns()["a"]
    real = 1.0 * whole
    steps = len(recording.steps)
    for same in (0.0 + real, real + 0.0, real - 0.0, 1.0 * real, real / 1.0, real.astype(np.float64)):
        assert same is real
    assert len(recording.steps) == steps
    for other in (whole + 0.0, whole / 1.0, 0.0 - real, 1.0 / real, 1 * whole, (real > 1.0) * 1.0):
        assert other is not real and other is not whole
    choices = drawn(recording, 7)
    wanted = np.array([1, 2, 3])[choices[:, 0]]
    for found, one in zip(
        recording.player([whole + 0.0, 0.0 - real, (real > 1.0) * 1.0]).play(choices),
        [wanted + 0.0, 0.0 - wanted, (wanted > 1.0) * 1.0],
        strict=True,
    ):
        np.testing.assert_array_equal(found, one)
        assert found.dtype == one.dtype


@elementwise
def _cut_off(value: Any, most: float = 3.0) -> Any:
    return np.minimum(value * value, most)


def test_a_function_that_is_elementwise_is_one_step() -> None:
    recording = Recording({"a": (1, 2, 3)})
    a = recording.columns()["a"]
    steps = len(recording.steps)
    cut, further = _cut_off(a), _cut_off(a, 5.0)
    assert _cut_off(a) is cut and cut + 0.0 is cut
    assert len(recording.steps) == steps + 2
    choices = drawn(recording, 9)
    found = recording.player([cut, further]).play(choices)
    values = np.array([1, 2, 3])[choices[:, 0]]
    np.testing.assert_array_equal(found, [_cut_off(values), _cut_off(values, 5.0)])


def test_operands_of_columns_stand_at_their_places_and_arrays_have_a_shape() -> None:
    a = Recording({"a": (1, 2, 3)}).columns()["a"]
    with pytest.raises(TypeError, match="_cut_off of columns takes operands by their places"):
        _cut_off(a, most=2.0)
    values = np.array([1.0, 2.0, 3.0])
    assert a * values is a * values.copy()
    assert a * values is not a * values[:, None]


@pytest.mark.parametrize("sizes", [(3, 4), (40, 50)])  # as a table, and as a step
@pytest.mark.parametrize("count", [1, 7, ROWS + 3])
def test_a_constant_of_rows_gives_rows_at_once(sizes: tuple[int, int], count: int) -> None:
    domains = {name: tuple(range(1, size + 1)) for name, size in zip("ab", sizes, strict=True)}
    recording = Recording(domains)
    a, b = recording.columns().values()
    rows = np.array([[1.5], [2.5], [4.0]])

    def calculated(a: Any, b: Any) -> Any:
        share = a * 1.0 / rows
        return _cut_off(share, rows) + np.where(share <= 1.0, b * rows, a)

    choices = drawn(recording, count)
    found = recording.player([row_of(calculated(a, b), number) for number in range(3)]).play(choices)
    wanted = calculated(choices[:, 0] + 1, choices[:, 1] + 1)
    np.testing.assert_array_equal(found, wanted)
    one = calculated(2.0, 3.0)  # of plain numbers: each row is one again
    assert [float(row_of(one, number)) for number in range(3)] == [float(row[0]) for row in one]


PROGRAMS = {
    "convolution": ops.conv2d(n=1, c=16, h=14, w=15, o=32, kernel=3, padding=1, constants=("W",)),
    "layer_norm": ops.layer_norm(100, 200),
    "attention": ops.attention(heads=2, queries=33, keys=40, width=16),
    **{f"draft {seed}": drafts.draw(seed).program("f32") for seed in (3, 5, 8, 13)},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_model_of_a_sketch_is_the_walk_over_its_loop_trees(name: str) -> None:
    target = parse_target("x86:avx512")
    task = Task.of(PROGRAMS[name], target, 2)
    for sketch in task.sketches[:6]:
        config_space = sketch.config_space(task.body, target)
        opened = sketch.opened(task.body, target)
        model = SketchModel(opened, config_space, target, 2, CEILINGS)
        choices = drawn(Recording({p.name: [int(v) for v in p.values] for p in config_space.parameters}), 50)
        tree = sketch.apply_population(task.body, target, config_space, choices)
        np.testing.assert_array_equal(model.valid(choices), valid(tree, 50))
        np.testing.assert_array_equal(model.seconds(choices), predict(tree, target, 2, CEILINGS, 50))
        np.testing.assert_array_equal(model.features(choices), features(tree, target, 2, 50))
