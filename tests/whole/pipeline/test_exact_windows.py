"""3x3 windows of bytes with fewer products: where they are offered, what is predicted of them, and compiled code of sizes that
nothing divides, which is right to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import random_config, run
from helpers.pipeline.narrow_convolutions import NarrowConvolution
from tilesmith.codegen.pipeline import build
from tilesmith.cost_model.analytic import predict
from tilesmith.schedules.prepared import prepared_stages
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.host import missing_here
from tilesmith.targets.target import parse_target
from tilesmith.tensor.accuracy import Accuracy

HALVES = ("x86:avx512", "x86:avx2", "x86:sse2")  # they multiply words of halves, and bytes no other way
BYTES = ("x86:avx512+avx512vnni", "x86:avx2+avxvnni", "x86:avx512+amx", "aarch64:neon")


def window(
    kinds: str = "u8 i8", channels: int = 19, outputs: int = 21, side: tuple[int, int] = (7, 10), padding: int = 1,
    border: int = 0, last: bool = True, finished: str = "plain", constant: bool = True, stride: int = 1,
) -> NarrowConvolution:  # fmt: skip
    a, b = kinds.split()
    return NarrowConvolution(
        (a, b), channels, outputs, side, (3, 3), stride, 1, padding, 1, last, border, finished, constant
    )


def task_of(one: NarrowConvolution, target: str = "x86:avx2", accuracy: Accuracy = "default") -> Task:
    return Task.of(one.program(), parse_target(target), 1, accuracy)


def fast(task: Task) -> list[Sketch]:
    return [sketch for sketch in task.sketches if "rewrite(winograd_integers" in sketch.text]


@pytest.mark.parametrize("target", HALVES)
@pytest.mark.parametrize(
    "one",
    [
        window(),
        window("i8 i8", last=False, finished="quantised"),
        window("u8 u8", padding=2, constant=False),
        window("u8 i8", border=113, finished="quantised"),
        window("i8 u8", channels=32, outputs=16, side=(8, 8), padding=0, last=False, constant=False),
        window(stride=2, finished="quantised"),
        window("i8 i8", side=(8, 9), last=False, stride=2, border=113),
    ],
)
def test_results_are_those_of_numpy(one: NarrowConvolution, target: str) -> None:
    if missing_here(parse_target(target)):
        pytest.skip(f"this processor is no {target}")
    task, rng = task_of(one, target), np.random.default_rng(0)
    sketches = fast(task)
    drawn = one.inputs(rng)
    ends = tuple(np.full_like(array, np.iinfo(array.dtype).max if n == 0 else np.iinfo(array.dtype).min)
                 for n, array in enumerate(drawn))  # fmt: skip
    for sketch in sketches[:: max(1, len(sketches) // 3)]:
        values = random_config(task, sketch, rng)
        assert values is not None
        artifact = build(task.program, sketch, values, task.target, 1)
        for arrays in (drawn, (ends[0], ends[1])):
            (result,) = run(artifact, task, arrays, at_end=bool(rng.integers(2)))
            assert one.complaint(arrays, result) is None


@pytest.mark.parametrize("target", HALVES + BYTES)
def test_they_are_offered_where_halves_are_multiplied_and_bytes_are_not(target: str) -> None:
    assert bool(fast(task_of(window(), target))) == (target in HALVES)


def test_strict_tasks_have_them_too() -> None:
    """No number is rounded."""
    assert fast(task_of(window(), accuracy="strict"))


def test_they_are_always_summed_in_words() -> None:
    assert all("rewrite(dot_words" in sketch.text for sketch in fast(task_of(window())))


def test_few_channels_do_not_pay_for_transforms() -> None:
    assert not fast(task_of(window(channels=12))) and not fast(task_of(window(outputs=12)))


def test_the_filter_and_its_words_are_made_once_and_the_epilogue_runs_with_the_last_transform() -> None:
    task = task_of(window(finished="quantised"))
    for sketch in fast(task):
        values = random_config(task, sketch, np.random.default_rng(0))
        assert values is not None
        tree = sketch.apply(task.body, task.target, values)
        made_once = [tree.by_stage[name] for name in prepared_stages(tree)]
        assert sorted(stage.copies is not None for stage in made_once) == [False, False, True]
        last = tree.stages[-1].stage
        assert sum(stage.at is not None and stage.at[0] == last for stage in tree.stages) == 2


def seconds(one: NarrowConvolution) -> tuple[float, float]:
    """The least predicted time of some candidates: with fewer products, and as it stands."""
    task, rng, found = task_of(one), np.random.default_rng(0), [np.inf, np.inf]
    ceilings = default_ceilings(task.target, 1)
    for sketch in task.sketches[1:]:
        for _ in range(8):
            values = random_config(task, sketch, rng)
            assert values is not None
            tree = sketch.apply(task.body, task.target, values)
            way = int(sketch not in fast(task))
            found[way] = min(found[way], float(predict(tree, task.target, 1, ceilings, 1)[0]))
    return found[0], found[1]


def test_the_model_tells_when_they_pay() -> None:
    """Not where filters come with each call, and few points share what is made of them."""
    with_fewer, as_it_stands = seconds(window(channels=128, outputs=128, side=(28, 28), finished="quantised"))
    assert 1.3 * with_fewer < as_it_stands
    with_fewer, as_it_stands = seconds(window(channels=128, outputs=128, side=(4, 4), constant=False))
    assert with_fewer > as_it_stands
