"""The programs of the race of pipelines mean what NumPy says of their definitions, and run, at sizes that nothing divides."""

from __future__ import annotations

import numpy as np
import pytest
from pipeline.images import IMAGES
from pipeline.pictures import given
from pipeline.references import REFERENCES

import tilesmith
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program

SIZES: dict[str, dict[str, int]] = {
    "bilateral grid": {"height": 35, "width": 53},
    "local Laplacian": {"height": 37, "width": 51, "pyramid": 3},
    "interpolate": {"height": 37, "width": 51, "levels": 4},
    "non-local means": {"height": 21, "width": 43, "patch": 3, "search": 3},
    "max of a disc": {"height": 25, "width": 37, "radius": 5},
    "recursive blur": {"height": 19, "width": 37},
    "camera": {"height": 42, "width": 70},
}
MOST = {"local Laplacian": 3, "camera": 1}  # units that a result may be off by, where floats are cut to integers


def small(name: str) -> tuple[Program, np.ndarray, np.ndarray]:
    """A program at its small size, a picture for it, and what NumPy makes of that."""
    sizes = SIZES[name]
    program = tilesmith.parse(IMAGES[name](**sizes))
    source = program.inputs[0].tensor
    array = given(name, source.shape, source.dtype.numpy)
    wanted = REFERENCES[name](array, **{key: value for key, value in sizes.items() if key not in ("height", "width")})
    return program, array, wanted


def agree(name: str, found: np.ndarray, wanted: np.ndarray) -> None:
    """Sharp edges of bins and levels lie where one rounding decides: few points may be elsewhere."""
    assert found.shape == wanted.shape
    apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    bound = MOST.get(name, 2e-5 * max(1, float(np.abs(wanted).max())))
    assert np.mean(apart > bound) <= (0.02 if name == "bilateral grid" else 0), apart.max()
    assert apart.max() <= max(bound, 0.05)


def test_each_program_has_a_reference() -> None:
    assert IMAGES.keys() == REFERENCES.keys() == SIZES.keys()


@pytest.mark.parametrize("name", sorted(SIZES))
def test_programs_mean_what_numpy_says(name: str) -> None:
    program, array, wanted = small(name)
    (found,) = evaluate(program, [array])
    agree(name, found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SIZES))
def test_kernels_compute_what_numpy_says(name: str) -> None:
    program, array, wanted = small(name)
    agree(name, np.asarray(tilesmith.compile(program, threads=2)(array)), wanted)
