"""Products of narrow elements on instructions that multiply words of them, at sizes that nothing divides, against the oracle.

The sketches are those that targets with the instructions have; they run with these, where this machine has them, and without.
So do those of targets that multiply halves alone, on each of these.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from helpers.pipeline.candidates import complaint, random_config, run
from helpers.pipeline.narrow_products import PROGRAMS, product
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.host import missing_here
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.text.parse import parse

HAVING = parse_target("x86:avx512+avx512vnni+avx512bf16")  # whose sketches are tried
TARGETS = {
    text: parse_target(text)
    for text in (
        "x86:avx512+avx512vnni+avx512bf16", "x86:avx512+avx512vnni+avx512bf16;vector=256", "x86:avx2+avxvnni",
        "x86:avx512", "x86:avx2", "x86:sse2",
    )
}  # fmt: skip
HALVES = ("x86:avx512", "x86:avx2", "x86:sse2")  # what multiplies halves, and no bytes
KINDS = ("u8 i8", "i8 i8", "u8 u8", "i16 i8", "bf16 bf16")
MOST = 1  # sketches of a program that are tried on each target: other ones on each


def with_dots(task: Task) -> list[Sketch]:
    rewrites = ("dot_words", "half_words", "small_words", "window_words", "bf16_dots")
    return [sketch for sketch in task.sketches if any(f"rewrite({name}" in sketch.text for name in rewrites)]


@cache
def tried(name: str, having: Target = HAVING) -> list[Sketch]:
    """The sketches of one of the programs on a target: those of one serve all others too."""
    return with_dots(Task.of(parse(PROGRAMS[name]), having, 1))


def llvm_of(name: str, target: str) -> str:
    task = Task.of(parse(PROGRAMS[name]), TARGETS[target], 1)
    sketch = tried(name)[0]
    values = random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    return build(task.program, sketch, values, task.target, 1, texts=True).texts["llvm"]


@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_sketches_are_right(name: str, text: str) -> None:
    target = TARGETS[text]
    if missing_here(target):
        pytest.skip(f"this machine has no {', '.join(missing_here(target))}")
    complain(name, target, MOST)


@pytest.mark.parametrize("text", HALVES)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if not name.startswith("bf16")])
def test_sketches_with_halves_are_right(name: str, text: str) -> None:
    target = TARGETS[text]
    if missing_here(target):
        pytest.skip(f"this machine has no {', '.join(missing_here(target))}")
    complain(name, target, MOST, target)


@pytest.mark.slow
@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_sketches_are_right(name: str, text: str) -> None:
    if not missing_here(TARGETS[text]):
        complain(name, TARGETS[text], len(tried(name)))


def complain(name: str, target: Target, most: int, having: Target = HAVING) -> None:
    """Runs drawn configs of some sketches, other ones on each target, with one thread or two."""
    found = tried(name, having)
    assert found
    rng = np.random.default_rng([0, *map(ord, target.text)])
    for sketch in [found[n] for n in rng.permutation(len(found))[:most]]:
        task = Task.of(parse(PROGRAMS[name]), target, int(rng.integers(1, 3)))
        values = random_config(task, sketch, rng)
        assert values is not None, sketch.title
        wrong = complaint(task, sketch, values, 1, at_end=bool(rng.integers(2)))
        assert wrong is None, f"{sketch.title} {values}: {wrong}"


@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(8, 50), st.integers(16, 90), st.integers(16, 100), st.sampled_from(KINDS),
    st.booleans(), st.integers(0, 2**32),
)  # fmt: skip
def test_products_of_any_size_are_right(m: int, n: int, k: int, kinds: str, constant: bool, seed: int) -> None:
    target = next(target for target in (HAVING, *TARGETS.values()) if not missing_here(target))
    rng = np.random.default_rng(seed)
    program = parse(product(*kinds.split(), m=m, n=n, k=k, kind="constant" if constant else "input"))
    found = [sketch for having in (HAVING, target) for sketch in with_dots(Task.of(program, having, 1))]
    assume(found)
    task, sketch = Task.of(program, target, int(rng.integers(1, 3))), found[rng.integers(len(found))]
    values = random_config(task, sketch, rng)
    assert values is not None, sketch.title
    note(f"{sketch.title} {values}, {task.threads} threads")
    assert complaint(task, sketch, values, seed % 1000, at_end=bool(rng.integers(2))) is None


def exactly(kinds: str, left: np.ndarray, right: np.ndarray) -> None:
    """All results are those of NumPy in i64, modulo 2^32: in words of bytes here, and in halves on all that multiply these."""
    here = next(target for target in (HAVING, *TARGETS.values()) if not missing_here(target))
    halves = [(TARGETS[text], TARGETS[text]) for text in HALVES if not missing_here(TARGETS[text])]
    truth = (left.astype(np.int64) @ right.astype(np.int64)).astype(np.int32)
    for target, having in [(here, HAVING), *halves]:
        task = Task.of(parse(product(*kinds.split(), left.shape[0], right.shape[1], left.shape[1])), target, 2)
        sketch = with_dots(Task.of(task.program, having, 2))[0]
        values = random_config(task, sketch, np.random.default_rng(3))
        assert values is not None
        (found,) = run(build(task.program, sketch, values, target, 2), task, [left, right], at_end=True)
        np.testing.assert_array_equal(found, truth, err_msg=target.text)


@pytest.mark.parametrize("kinds", ["u8 i8", "i8 i8", "u8 u8", "i8 u8"])
def test_every_product_of_two_bytes_is_exact(kinds: str) -> None:
    """Row i has one byte in all places but for its shift by place, column j another one: all 65,536 pairs meet."""
    a, b = (np.arange(256).astype(np.uint8).view(DTYPES[kind].numpy) for kind in kinds.split())
    exactly(kinds, np.repeat(a[:, None], 17, axis=1), np.repeat(b[None, :], 17, axis=0))


@pytest.mark.parametrize("kinds", ["u8 i8", "i8 i8", "u8 u8", "i8 u8", "i16 i16"])
def test_nothing_saturates_at_the_ends_of_a_type(kinds: str) -> None:
    """Four products of 255 and -128, or two of -32768 with itself, are more than a half of 16 bits, or a sum of 32, holds."""
    ends = [np.array([np.iinfo(DTYPES[kind].numpy).min, np.iinfo(DTYPES[kind].numpy).max]) for kind in kinds.split()]
    rng = np.random.default_rng(0)
    left = ends[0][rng.integers(0, 2, (16, 130))]
    right = ends[1][rng.integers(0, 2, (130, 48))]
    left[0], right[:, 0], left[1], right[:, 1] = ends[0][0], ends[1][0], ends[0][1], ends[1][1]
    first, second = (DTYPES[kind].numpy for kind in kinds.split())
    exactly(kinds, left.astype(first), right.astype(second))


@pytest.mark.parametrize("name", ["u8 s8", "s8 s8", "u8 u8", "s16 s16", "bf16"])
def test_the_instruction_is_there_where_the_target_has_it(name: str) -> None:
    instruction = {"s": "vpdpw", "b": "dpbf16"}.get("b" if "bf16" in name else "s" if "16" in name else "", "vpdpbusd")
    assert instruction in llvm_of(name, "x86:avx512+avx512vnni+avx512bf16")
    assert instruction not in llvm_of(name, "x86:avx512")


@pytest.mark.parametrize(
    ("text", "instruction"),
    [("x86:avx512", "pmaddw.d.512"), ("x86:avx2", "avx2.pmadd.wd"), ("x86:sse2", "sse2.pmadd.wd")],
)
def test_halves_are_multiplied_where_bytes_are_not(text: str, instruction: str) -> None:
    target = TARGETS[text]
    for name in ("u8 s8", "s8 s8", "u8 u8", "s16 s16", "window with signs"):
        task, sketch = Task.of(parse(PROGRAMS[name]), target, 1), tried(name, target)[0]
        values = random_config(task, sketch, np.random.default_rng(0))
        assert values is not None
        assert instruction in build(task.program, sketch, values, target, 1, texts=True).texts["llvm"]


def crossed(target: Target, kinds: str, m: int, n: int, k: int) -> tuple[Task, list[Sketch]]:
    """A product with a constant, and those of its sketches that multiply sums of bytes."""
    task = Task.of(parse(product(*kinds.split(), m, n, k, "constant")), target, 2)
    return task, [one for one in task.sketches if "rewrite(crossed_words" in one.text]


@pytest.mark.parametrize("text", HALVES)
@pytest.mark.parametrize("kinds", ["u8 i8", "i8 i8", "u8 u8", "i8 u8"])
def test_products_of_sums_of_bytes_are_exact(kinds: str, text: str) -> None:
    """All 65,536 pairs of bytes meet, at a depth that words do not divide."""
    target = TARGETS[text]
    if missing_here(target):
        pytest.skip(f"this machine has no {', '.join(missing_here(target))}")
    a, b = (np.arange(256).astype(np.uint8).view(DTYPES[kind].numpy) for kind in kinds.split())
    left, right = np.repeat(a[:, None], 19, axis=1), np.repeat(b[None, :], 19, axis=0)
    truth, rng = left.astype(np.int64) @ right.astype(np.int64), np.random.default_rng(2)
    task, found = crossed(target, kinds, 256, 256, 19)
    assert found
    for sketch in found[:2]:
        values = random_config(task, sketch, rng)
        assert values is not None
        (made,) = run(build(task.program, sketch, values, target, 2), task, [left, right], at_end=True)
        np.testing.assert_array_equal(made, truth, err_msg=f"{sketch.title} {values}")


@pytest.mark.parametrize("text", HALVES)
def test_all_ways_to_multiply_sums_of_bytes_are_right(text: str) -> None:
    target = TARGETS[text]
    if missing_here(target):
        pytest.skip(f"this machine has no {', '.join(missing_here(target))}")
    rng = np.random.default_rng(4)
    task, found = crossed(target, "u8 i8", 37, 53, 120)
    assert found and {"true", "false"} == {
        one.title.split("pack rows=")[1][:-1] for one in found if "pack" in one.title
    }
    for sketch in found:
        values = random_config(task, sketch, rng)
        assert values is not None
        assert complaint(task, sketch, values, 3, at_end=bool(rng.integers(2))) is None, f"{sketch.title} {values}"


def test_additions_stay_apart_in_machine_code() -> None:
    """LLVM would add products of two steps first, and the sums of these later: twice as many registers, which are not there."""
    target = TARGETS["x86:avx2"]
    task = Task.of(parse(product("u8", "i8", 48, 48, 64, "constant")), target, 1)
    sketch = next(one for one in with_dots(task) if "crossed=false" in one.title and "pack rows=false" in one.title)
    values = random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    values |= {"t2.rows": 6, "t2.vectors": 2, "t2.unroll": 4}
    asm = build(task.program, sketch, values, target, 1, texts=True).texts["asm"].splitlines()
    after = [line.split()[0] for previous, line in pairwise(asm) if "vpmaddwd" in previous]
    assert len(after) >= 48 and set(after) == {"vpaddd"}


def test_targets_without_an_instruction_have_the_sketches_that_they_had() -> None:
    for text in ("aarch64:neon", "cuda:sm_90a"):
        for program in PROGRAMS.values():
            assert not with_dots(Task.of(parse(program), parse_target(text), 1))
    for text in HALVES:
        for name in PROGRAMS:
            assert bool(tried(name, TARGETS[text])) != name.startswith("bf16")


def test_infinities_and_nan_of_bfloat16_are_those_of_the_program() -> None:
    if missing_here(HAVING):
        pytest.skip("this machine has no such instructions")
    task = Task.of(parse(PROGRAMS["bf16"]), HAVING, 1)
    rng = np.random.default_rng(0)
    special = np.array([0x7F80, 0xFF80, 0x7FC0, 0x8000, 0x0000], np.uint16)  # inf, -inf, NaN, -0, 0
    arrays = []
    for declared in task.program.inputs:
        values = (rng.standard_normal(declared.tensor.shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        places = rng.random(declared.tensor.shape) < 0.01
        values[places] = rng.choice(special, int(places.sum()))
        arrays.append(values.view(declared.tensor.dtype.numpy))
    for sketch in with_dots(task)[:4]:
        values = random_config(task, sketch, rng)
        assert values is not None
        assert complaint(task, sketch, values, 0, inputs=arrays) is None, sketch.title


def test_numbers_below_the_least_normal_one_are_off_by_no_more_than_is_stated() -> None:
    """docs/accuracy.md; in strict kernels they are what they are."""
    if missing_here(HAVING):
        pytest.skip("this machine has no such instructions")
    task, rng = Task.of(parse(PROGRAMS["bf16"]), HAVING, 1), np.random.default_rng(0)
    bits = [rng.integers(0, 1 << 7, declared.tensor.shape, np.uint16) for declared in task.program.inputs]  # subnormal
    large = rng.random(bits[0].shape) < 0.5
    bits[0][large] = 0x4000  # 2.0
    floats = [(b.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for b in bits]
    truth = floats[0] @ floats[1]
    arrays = [b.view(d.tensor.dtype.numpy) for b, d in zip(bits, task.program.inputs, strict=True)]
    sketch = with_dots(task)[0]
    values = random_config(task, sketch, rng)
    assert values is not None
    (found,) = run(build(task.program, sketch, values, HAVING, 1), task, arrays, at_end=True)
    bound = bits[0].shape[1] * 2.0**-126 * (2 + floats[0].max() + floats[1].max())
    assert np.abs(truth).max() > 0 and (np.abs(found - truth) <= bound).all()
    assert not with_dots(Task.of(task.program, HAVING, 1, "strict"))
