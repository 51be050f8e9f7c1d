"""One outlier in an image spoils nothing outside of its own windows, by fast convolutions too."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from helpers.pipeline.candidates import random_config, run
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.fast_windows.sliding import UNEVEN
from tilesmith.tensor.rewrites.fast_windows.winograd import winograd
from tilesmith.tensor.stage_edits import needed_stages

HOST = parse_target("host")
SIDE = 9  # two tiles of 4 and a piece: an outlier at each position stands at each place of some tile
CHANNELS = 16
EPS = 2.0**-23
OUTLIERS = (1e6, 1e30, np.inf, -np.inf, np.nan)


def program(layout: str, stride: int = 1) -> Program:
    return ops.conv2d(1, CHANNELS, SIDE, SIDE, 16, kernel=3, padding=1, layout=layout, stride=stride)


@lru_cache(maxsize=16)
def kernel(layout: str, tile: int, stride: int = 1) -> tuple[Task, Artifact]:
    """Some candidate with tiles of this size; 0: the definition."""
    task = Task.of(program(layout, stride), HOST, 1)
    sketch = next(s for s in task.sketches[1:] if dict(s.variants)["t0 fast"] == tile)
    values = random_config(task, sketch, np.random.default_rng(tile))
    assert values is not None
    return task, build(task.program, sketch, values, HOST, 1)


def data(layout: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    image, weights = (rng.standard_normal(i.tensor.shape).astype(np.float32) for i in program(layout).inputs)
    return image, weights


def seen(layout: str, row: int, column: int, stride: int) -> np.ndarray:
    """bool[output]: which results have a pixel in their window."""
    middles = np.arange(0, SIDE, stride)
    near = np.abs(middles[:, None, None] - row) <= 1
    near = near & (np.abs(middles[None, :, None] - column) <= 1)
    near = np.broadcast_to(near, (len(middles), len(middles), 16))
    return np.expand_dims(near if layout == "nhwc" else near.transpose(2, 0, 1), 0)


def most_in_windows(image: np.ndarray, stride: int, channels: int = 1) -> np.ndarray:
    """The largest pixel in the window of each result, all channels of it added up."""
    sizes = np.pad(np.abs(image[0]).sum(channels - 1), 1)
    return np.lib.stride_tricks.sliding_window_view(sizes, (3, 3)).max((-1, -2))[::stride, ::stride]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_results_that_do_not_see_it_are_as_without_it(layout: str, tile: int, stride: int) -> None:
    task, fast = kernel(layout, tile, stride)
    _, direct = kernel(layout, 0, stride)
    image, weights = data(layout)
    (truth,) = evaluate(task.program, [image, weights])
    for number in range(SIDE * SIDE):
        row, column = divmod(number, SIDE)
        outlier = OUTLIERS[number % len(OUTLIERS)]
        spoiled = image.copy()
        spoiled[(0, 3, row, column) if layout == "nchw" else (0, row, column, 3)] = outlier
        (found,) = run(fast, task, [spoiled, weights], at_end=True)
        inside = seen(layout, row, column, stride)
        assert np.abs(found - truth)[~inside].max() < 1e-4, f"{outlier} at {row}, {column}"
        (plain,) = run(direct, task, [spoiled, weights], at_end=True)
        if np.isfinite(outlier):
            assert np.abs(found - plain)[inside].max() <= 4e-6 * abs(outlier)
        else:
            np.testing.assert_array_equal(found[inside], plain[inside])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("tile", [2, 4])
def test_the_error_has_a_bound_that_the_window_gives(tile: int, stride: int) -> None:
    """At the most uneven tiles that are still transformed: the figures of docs/accuracy.md."""
    task, fast = kernel("nchw", tile, stride)
    image, weights = data("nchw")
    rng = np.random.default_rng(8)
    for _ in range(12):
        row, column = rng.integers(0, SIDE, 2)
        spoiled = image.copy()
        spoiled[:, :, row, column] *= 0.9 * UNEVEN
        (truth,) = evaluate(task.program, [spoiled, weights])
        (found,) = run(fast, task, [spoiled, weights], at_end=True)
        assert np.all(
            np.abs(found - truth) <= 4 * UNEVEN * EPS * most_in_windows(spoiled, stride) * np.abs(weights).max()
        )


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_an_outlier_in_a_filter_stays_in_its_filter_and_in_the_bound(layout: str, tile: int, stride: int) -> None:
    """Other filters give what they gave; where it meets zeros, the bound holds that the largest coefficient gives."""
    task, fast = kernel(layout, tile, stride)
    _, direct = kernel(layout, 0, stride)
    image, weights = data(layout)
    image *= np.random.default_rng(9).integers(0, 2, image.shape, dtype=np.int8)  # zeros beside anything
    channels = 1 if layout == "nchw" else 3
    windows = most_in_windows(image, stride, channels)
    (without,) = run(fast, task, [image, weights], at_end=True)
    for number, outlier in enumerate(OUTLIERS):
        row, column = divmod(2 * number % 9, 3)
        place = (5, 3, row, column) if layout == "nchw" else (row, column, 3, 5)
        spoiled = weights.copy()
        spoiled[place] = outlier
        (truth,) = evaluate(task.program, [image, spoiled])
        (found,) = run(fast, task, [image, spoiled], at_end=True)
        (plain,) = run(direct, task, [image, spoiled], at_end=True)
        found, plain, kept, truth = (np.moveaxis(one[0], channels - 1, 0) for one in (found, plain, without, truth))
        np.testing.assert_array_equal(np.delete(found, 5, 0), np.delete(kept, 5, 0))
        if abs(outlier) < 2.0**44:
            assert np.all(np.abs(found[5] - truth[5]) <= 4 * UNEVEN * EPS * windows * abs(outlier))
        else:  # summed as it is defined, in another order
            np.testing.assert_allclose(found[5], plain[5], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kind", ["normal", "after relu", "one sided", "small"])
def test_ordinary_images_never_ask(kind: str, stride: int) -> None:
    """Borders, overhanging tiles and images half of zeros are even."""
    made = winograd(program("nchw", stride), "y", "p", "q", tile=4)
    image, weights = data("nchw")
    image = {"normal": image, "after relu": np.maximum(image, 0), "one sided": image + 5, "small": image * 1e-30}[kind]
    (spread,) = evaluate(_until(made, "y_spread"), [image])
    (gauge,) = evaluate(_until(made, "y_gauge"), [weights])
    assert spread.max() < 2.0**64 and gauge.max() < 2.0**64


@pytest.mark.parametrize("stride", [1, 2])
def test_a_dark_window_in_a_bright_tile_asks(stride: int) -> None:
    made = winograd(program("nchw", stride), "y", "p", "q", tile=4)
    image, _ = data("nchw")
    image[:, :, :4, :4] *= 2 * UNEVEN
    (spread,) = evaluate(_until(made, "y_spread"), [image])
    assert np.isinf(spread).any() and np.isfinite(spread).any()


def _until(made: Program, name: str) -> Program:
    """What makes one tensor, alone."""
    alone = needed_stages(replace(made, outputs=(name,)))
    read = {read.tensor for stage in alone.stages for read in stage.reads()}
    return replace(alone, inputs=tuple(item for item in alone.inputs if item.tensor.name in read))
