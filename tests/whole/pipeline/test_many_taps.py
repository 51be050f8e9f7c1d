"""Gradients of 3x3 filters by fast convolutions, the whole way: right, near the definition, and spoilt by nothing unseen."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from helpers.pipeline.candidates import complaint, random_config, run
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.rewrites.fast_windows.sliding import UNEVEN
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
EPS = 2.0**-23
IMAGES, CHANNELS, FILTERS, SIDE = 3, 16, 19, 11  # two tiles of 4 each way and a piece
PROGRAM = parse(f"""\
input x: f32[{IMAGES}, {CHANNELS}, {SIDE}, {SIDE}]
input g: f32[{IMAGES}, {FILTERS}, {SIDE}, {SIDE}]
d[o: {FILTERS}, c: {CHANNELS}, r: 3, s: 3] = sum[n: {IMAGES}, i: {SIDE}, j: {SIDE}](select(r + i >= 1 and \
r + i < {SIDE + 1} and s + j >= 1 and s + j < {SIDE + 1}, x[n, c, r + i - 1, s + j - 1], 0) * g[n, o, i, j])
return d""")
OUTLIERS = (1e6, 1e30, np.inf, np.nan)


@lru_cache(maxsize=1)
def task() -> Task:
    return Task.of(PROGRAM, HOST, 2)


def candidate(inside: bool | None) -> Sketch:
    """The sketch that transforms operands inside of blocks of products, or ahead; None: the definition."""
    if inside is None:
        return next(s for s in task().sketches[1:] if not dict(s.variants)["t0 fast"])
    return next(
        s for s in task().sketches if any(name.endswith("transforms inside") and v == inside for name, v in s.variants)
    )


@lru_cache(maxsize=3)
def kernel(inside: bool | None) -> Artifact:
    sketch = candidate(inside)
    values = random_config(task(), sketch, np.random.default_rng(4))
    assert values is not None
    return build(task().program, sketch, values, HOST, 2)


def drawn(seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    image, above = (rng.standard_normal(i.tensor.shape).astype(np.float32) for i in PROGRAM.inputs)
    return image, above


def by_numpy(image: np.ndarray, above: np.ndarray) -> np.ndarray:
    """f64[o, c, r, s], without our oracle."""
    padded = np.pad(image.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (SIDE, SIDE), (2, 3))
    return np.einsum("ncrsij,noij->ocrs", windows, above.astype(np.float64))


@pytest.mark.parametrize("inside", [False, True])
def test_candidates_are_right(inside: bool) -> None:
    sketch, rng = candidate(inside), np.random.default_rng(4)
    for seed in range(2):
        values = random_config(task(), sketch, rng)
        assert values is not None
        assert complaint(task(), sketch, values, seed, at_end=bool(seed)) is None, values


@pytest.mark.parametrize("inside", [False, True])
def test_the_error_has_a_bound(inside: bool) -> None:
    """Where data are as uneven as may be: 8 eps times the norms of both operands (docs/accuracy.md)."""
    image, above = drawn()
    image[:, :, 0, 0] = 0.9 * UNEVEN
    (found,) = run(kernel(inside), task(), [image, above], at_end=True)
    norms = [np.sqrt((one.astype(np.float64) ** 2).sum((0, 2, 3))) for one in (above, image)]
    bound = 8 * EPS * norms[0][:, None, None, None] * norms[1][:, None, None]
    assert np.all(np.abs(found - by_numpy(image, above)) <= bound)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("outlier", OUTLIERS)
def test_results_that_do_not_see_it_are_as_without_it(inside: bool, outlier: float) -> None:
    """A corner is in the windows of four results; other channels have nothing to do with it."""
    image, above = drawn()
    spoiled = image.copy()
    spoiled[1, 5, 0, SIDE - 1] = outlier
    inputs = [spoiled, above]
    (found,), (direct,) = (run(one, task(), inputs, at_end=True) for one in (kernel(inside), kernel(None)))
    truth = by_numpy(image, above)
    unseen = np.ones(found.shape, bool)
    unseen[:, 5, :2, 1:] = False
    assert np.abs(found - truth)[unseen].max() < 1e-4
    np.testing.assert_allclose(found[~unseen], direct[~unseen], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("outlier", OUTLIERS[1:])
def test_huge_gradients_stay_with_their_filter(outlier: float) -> None:
    image, above = drawn()
    above[2, 7, 4, 4] = outlier
    (found,), (direct,) = (run(one, task(), [image, above], at_end=True) for one in (kernel(True), kernel(None)))
    np.testing.assert_allclose(found, direct, rtol=1e-5, atol=1e-4)
    assert np.isfinite(np.delete(found, 7, 0)).all()
