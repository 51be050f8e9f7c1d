"""Rounded numbers that are cut to narrow integers are NumPy's to the last bit, near an end, near a tie or anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import Array, random_config, run
from tilesmith.codegen.emit.rounding import rounded_integer_of
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
EDGES = [0.0, -0.0, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**20, -(2.0**20), 2.0**24 + 2, 1e-45, -1e-45, 3e38, -3e38]
# dtype of the result and of what is added, the two ends
CASES = [
    ("u8", "u8", 0, 255),
    ("i8", "i8", -128, 127),
    ("i8", "", -127, 127),
    ("u8", "i16", 3, 250),
    ("i16", "u16", -32768, 32767),
]


def numbers() -> Array:
    """Floats of all sizes, all halves near the ends with their neighbours, and the edges."""
    halves = np.arange(-1200, 1200, dtype=np.float32) / 4
    every = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    near = [halves, np.nextafter(halves, np.float32(np.inf)), np.nextafter(halves, np.float32(-np.inf))]
    values = np.concatenate([*near, every[~np.isnan(every)], np.array(EDGES, np.float32)])
    return np.resize(values.astype(np.float32), (len(values) // 64 + 1) * 64).reshape(-1, 64)


def task(kind: str, added: str, least: int, most: int, rows: int) -> Task:
    """Rounds a matrix to integers, each row moved by a number of its own."""
    moved = "round(x[i, j])" + (" + f32(z[i])" if added else "")
    head = f"input x: f32[{rows}, 64]\n" + (f"input z: {added}[{rows}]\n" if added else "")
    return Task.of(
        parse(f"{head}y[i: {rows}, j: 64] = {kind}(min(max({moved}, {least}), {most}))\nreturn y\n"), HOST, 1
    )


def rounded(x: Array, z: Array | None, kind: str, least: int, most: int) -> Array:
    """What NumPy says, in float64, which holds every float and every sum that is no end."""
    exact = np.rint(x.astype(np.float64)) + (0 if z is None else z[:, None].astype(np.float64))
    return np.clip(exact, least, most).astype(DTYPES[kind].numpy)


@pytest.mark.parametrize(("kind", "added", "least", "most"), CASES)
def test_integers_are_those_of_numpy(kind: str, added: str, least: int, most: int) -> None:
    x = numbers()
    info = np.iinfo(DTYPES[added].numpy) if added else None
    z = None if info is None else np.resize(np.array([0, info.min, info.max, 1, 7], DTYPES[added].numpy), len(x))
    one = task(kind, added, least, most, len(x))
    for sketch in one.sketches:
        values = random_config(one, sketch, np.random.default_rng(0))
        if values is None:
            continue
        artifact = build(one.program, sketch, values, HOST, 1, texts=True)
        assert "ps2dq" in artifact.texts["llvm"] or HOST.kind != "x86" or sketch.title == "default"
        (found,) = run(artifact, one, [x] if z is None else [x, z], at_end=True)
        assert np.array_equal(np.asarray(found), rounded(x, z, kind, least, most))


def test_a_sum_that_may_fall_is_kept_from_below() -> None:
    """Without that the least i32 would wrap: it is what is too small."""
    x, z = np.full((8, 64), -1e30, np.float32), np.full(8, -5, np.int8)
    one = task("i8", "i8", -128, 127, 8)
    values = random_config(one, one.sketches[-1], np.random.default_rng(0))
    assert values is not None
    (found,) = run(build(one.program, one.sketches[-1], values, HOST, 1), one, [x, z], at_end=False)
    assert np.all(np.asarray(found) == -128)


@pytest.mark.parametrize(
    "text",
    [
        "u8(min(max(round(x[0]), 0), 256))",  # no byte
        "u8(min(max(round(x[0]), -1), 255))",
        "u8(min(max(x[0], 0), 255))",  # not rounded
        "u8(min(round(x[0]), 255))",  # one end
        "u8(min(max(round(x[0]) + x[1], 0), 255))",  # what is added is any float
        "u8(min(max(round(x[0]) + 0.5, 0), 255))",
        "i32(min(max(round(x[0]), 0), 255))",
    ],
)
def test_other_casts_are_none(text: str) -> None:
    program = parse(f"input x: f32[2]\ny[i: 1] = {text}\nreturn y\n")
    (body,) = program.stages[0].bodies
    assert rounded_integer_of(body) is None  # type: ignore[arg-type]
