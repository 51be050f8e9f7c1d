"""Products with weights in few bits, whose scales belong to groups, at sizes that nothing divides, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import complaint, random_config, run
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.host import missing_here
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.text.parse import parse

TARGETS = ("x86:avx512", "x86:avx512;vector=256", "x86:avx2", "x86:sse2")
LOOKS = "x86:avx512"
PARTS = "select(k % 2 == 0, i32({0}) % 16, i32({0}) // 16)"


def halves(
    m: int, n: int, k: int, group: int, transposed: bool = False, zero: str = "8", scale: str = "f16", end: str = ""
) -> str:
    """C = x W with weights of 4 bits, two to a byte, and scales for each group of the depth."""

    def at(name: str, index: str) -> str:
        return f"{name}[j, {index}]" if transposed else f"{name}[{index}, j]"

    def shape(points: int) -> str:
        return f"[{n}, {points}]" if transposed else f"[{points}, {n}]"

    zeros = {"8": "8", "bytes": f"i32({at('z', f'k // {group}')})"}[zero]
    lines = [f"input x: f32[{m}, {k}]", f"constant w: u8{shape(k // 2)}", f"constant s: {scale}{shape(k // group)}"]
    lines += [f"constant z: u8{shape(k // group)}"] if zero == "bytes" else []
    weight = f"f32({PARTS.format(at('w', 'k // 2'))} - {zeros}) * f32({at('s', f'k // {group}')})"
    lines += [f"W[k: {k}, j: {n}] = {weight}", f"C[i: {m}, j: {n}] = sum[k: {k}](x[i, k] * W[k, j])"]
    if end:
        lines += [f"constant bias: f32[{n}]", f"D[i: {m}, j: {n}] = {end}", "return D"]
    return "\n".join(lines if end else [*lines, "return C"])


PROGRAMS = {
    "one row": halves(1, 37, 128, 64),
    "rows": halves(5, 37, 128, 32, transposed=True, zero="bytes"),
    "scales in full": halves(3, 50, 96, 32, scale="f32"),
    "scales in bf16, finished": halves(7, 33, 64, 16, scale="bf16", zero="bytes", end="max(C[i, j] + bias[j], 0)"),
    "one row, finished": halves(1, 70, 64, 32, end="C[i, j] + bias[j]"),
    "bytes": """
        input x: f32[6, 96]
        constant w: i8[41, 96]
        constant s: f32[41, 3]
        W[j: 41, k: 96] = f32(w[j, k]) * s[j, k // 32]
        C[i: 6, j: 41] = sum[k: 96](x[i, k] * W[j, k])
        return C
        """,
    "bytes by channel": """
        input x: f32[6, 43]
        constant w: i8[41, 43]
        constant s: f32[41]
        W[j: 41, k: 43] = f32(w[j, k]) * s[j]
        C[i: 6, j: 41] = sum[k: 43](x[i, k] * W[j, k])
        return C
        """,
}


def grouped(task: Task) -> list[Sketch]:
    return [sketch for sketch in task.sketches if "rewrite(factor_sums" in sketch.text]


@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_sketches_are_right(name: str, text: str) -> None:
    target = parse_target(text)
    if missing_here(target):
        pytest.skip(f"this machine has no {', '.join(missing_here(target))}")
    check(name, target, 2)


@pytest.mark.slow
@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_sketches_are_right(name: str, text: str) -> None:
    if not missing_here(parse_target(text)):
        check(name, parse_target(text))


def check(name: str, target: Target, most: int | None = None) -> None:
    """Runs a drawn config of all sketches, or of some, other ones on each target, with one thread and with two."""
    rng = np.random.default_rng([*map(ord, target.text)])
    for threads in (1, 2):
        task = Task.of(parse(PROGRAMS[name]), target, threads)
        found = grouped(task)
        assert found
        for sketch in [found[n] for n in rng.permutation(len(found))[:most]]:
            values = random_config(task, sketch, rng)
            assert values is not None, sketch.title
            wrong = complaint(task, sketch, values, threads, at_end=threads == 1)
            assert wrong is None, f"{sketch.title} {values}: {wrong}"


def unrolled(task: Task) -> tuple[Sketch, dict[str, int | str | bool]]:
    """The first sketch, with a config that writes out some points of the depth."""
    sketch = grouped(task)[0]
    values = random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    return sketch, {name: 4 if name.endswith(".unroll") else value for name, value in values.items()}


def texts_of(name: str, target: str) -> dict[str, str]:
    task = Task.of(parse(PROGRAMS[name]), parse_target(target), 1)
    return dict(build(task.program, *unrolled(task), task.target, 1, texts=True).texts)


@pytest.mark.parametrize("name", ["one row", "rows", "scales in bf16, finished"])
def test_half_bytes_are_looked_up_where_the_target_can(name: str) -> None:
    llvm = texts_of(name, LOOKS)["llvm"]
    assert "permvar.sf.512" in llvm
    assert "sdiv" not in llvm and "srem" not in llvm  # shifts and masks elsewhere
    narrow = texts_of(name, "x86:avx2")["llvm"]
    assert "permvar" not in narrow and "sdiv" not in narrow


@pytest.mark.parametrize("name", ["one row", "rows", "bytes"])
def test_weights_are_kept_as_narrow_as_they_are(name: str) -> None:
    kept = [line for line in texts_of(name, LOOKS)["loops"].splitlines() if "in prepared" in line]
    weights = max(kept, key=lambda line: line.count(","))
    assert kept and (": u8[" in weights or ": i8[" in weights)
    assert not any(": f32[" in line for line in kept if "bias" not in line and name != "bytes")


@pytest.mark.parametrize("zero", ["8", "bytes"])
def test_every_half_byte_is_exact_at_every_zero_point(zero: str) -> None:
    """Rows of the identity give the weights themselves: all 16 of them, beside 256 zero points."""
    n, k = 256, 64
    program = parse(halves(k, n, k, 32, zero=zero, scale="f32"))
    target = next(t for t in map(parse_target, TARGETS) if not missing_here(t))
    task = Task.of(program, target, 1)
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, (k // 2, n), np.uint8)
    zeros = np.tile(np.arange(256, dtype=np.uint8), (2, 1))
    scales = np.ones((2, n), np.float32)
    inputs = [np.eye(k, dtype=np.float32), packed, scales, *([zeros] if zero == "bytes" else [])]
    (found,) = run(build(task.program, *unrolled(task), target, 1), task, inputs, at_end=True)
    numbers = np.stack([packed % 16, packed // 16], axis=1).reshape(k, n).astype(np.int32)
    np.testing.assert_array_equal(found, numbers - (zeros[0].astype(np.int32) if zero == "bytes" else 8))


def test_strict_kernels_leave_scales_where_they_are() -> None:
    task = Task.of(parse(PROGRAMS["rows"]), parse_target(LOOKS), 1, "strict")
    assert task.sketches and not grouped(task)


def test_weights_of_many_uses_are_made_floats_once() -> None:
    assert not grouped(Task.of(parse(halves(128, 64, 64, 32)), parse_target(LOOKS), 1))
