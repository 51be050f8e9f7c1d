"""Products of small bytes on instructions that cut sums of two products to 16 bits: exact, for nothing is cut."""

from __future__ import annotations

from itertools import product as combinations

import numpy as np
import pytest

from helpers.pipeline.candidates import complaint, random_config, run
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import ProgramError
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.host import missing_here
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.rewrites import dot_words
from tilesmith.tensor.text.parse import parse

TARGETS = {text: parse_target(text) for text in ("x86:avx512", "x86:avx2")}
WITHOUT = "x86:sse2"  # multiplies halves alone
TRIED = {**TARGETS, WITHOUT: TARGETS["x86:avx2"]}  # whose sketches are built for a target


def text_of(m: int, n: int, k: int, a: str = "u8", bound: int = 64) -> str:
    return f"""
        input A: {a}[{m}, {k}]
        constant B: i8[{k}, {n}]
        W[k: {k}, j: {n}] = min(max(B[k, j], {-bound}), {bound})
        C[i: {m}, j: {n}] = sum[k: {k}](i32(A[i, k]) * i32(W[k, j]))
        return C
        """


def held(m: int, n: int, k: int) -> str:
    """The same of weights up to 64 of which four together have no more than 128 on each side of zero."""
    sums = "\n".join(
        f"{name}[g: {k // 8}, h: 2, j: {n}] = sum[t: 2, e: 2](max({sign}i32(B[g * 8 + t * 4 + h * 2 + e, j]), 0))"
        for name, sign in (("U", ""), ("D", "-"))
    )
    condition = " and ".join(f"{name}[k // 8, k % 4 // 2, j] <= 128" for name in "UD")
    weights = "min(max(B[k, j], -64), 64)"
    return text_of(m, n, k).replace(weights, f"select({condition}, {weights}, 0)").replace("W[k", f"{sums}\nW[k", 1)


def small(task: Task) -> list[Sketch]:
    return [sketch for sketch in task.sketches if "rewrite(small_words" in sketch.text and sketch not in added(task)]


def added(task: Task) -> list[Sketch]:
    """Those that add sums of several words as halves."""
    return [sketch for sketch in task.sketches if "rewrite(added_halves" in sketch.text]


def here(text: str) -> Target:
    target = parse_target(text)
    if missing_here(target):
        pytest.skip(f"this machine has no {', '.join(missing_here(target))}")
    return target


def result(task: Task, sketch: Sketch, target: Target, given: list[np.ndarray], seed: int) -> np.ndarray:
    values = random_config(task, sketch, np.random.default_rng(seed))
    assert values is not None
    (made,) = run(build(task.program, sketch, values, target, task.threads), task, given, at_end=True)
    return made


def test_the_rule_takes_what_is_held_in_a_range_where_nothing_multiplies_bytes() -> None:
    for text, target in TARGETS.items():
        assert small(Task.of(parse(text_of(48, 48, 64)), target, 1)), text
        assert not small(Task.of(parse(text_of(48, 48, 64, bound=65)), target, 1)), text
    for text in (WITHOUT, "x86:avx512+avx512vnni", "x86:avx2+avxvnni", "aarch64:neon"):
        assert not small(Task.of(parse(text_of(48, 48, 64)), parse_target(text), 1)), text


@pytest.mark.parametrize("text", TARGETS)
def test_the_instruction_is_there(text: str) -> None:
    task = Task.of(parse(text_of(48, 48, 64)), TARGETS[text], 1)
    values = random_config(task, small(task)[0], np.random.default_rng(0))
    assert values is not None
    texts = build(task.program, small(task)[0], values, TARGETS[text], 1, texts=True).texts
    assert "vpmaddubsw" in texts["asm"] and "prepare " in texts["loops"]


@pytest.mark.parametrize("text", [*TARGETS, WITHOUT])
@pytest.mark.parametrize("kind", ["u8", "i8"])
def test_every_word_of_ends_is_exact(kind: str, text: str) -> None:
    """All words of the ends of both ranges meet; where nothing multiplies them, the same sketch is operations on words."""
    target, having = here(text), TARGETS["x86:avx2"]
    ends = (0, 1, 254, 255) if kind == "u8" else (-128, -127, 0, 127)
    left = np.array(list(combinations(ends, repeat=4)), np.uint8 if kind == "u8" else np.int8)
    right = np.array(list(combinations((-64, -63, 63, 64), repeat=4)), np.int8)
    left, right = np.tile(left, 4), np.ascontiguousarray(np.tile(right, 4).T)
    task = Task.of(parse(text_of(len(left), right.shape[1], 16, kind)), target, 2)
    sketch = small(Task.of(task.program, having, 2))[0]
    truth = left.astype(np.int64) @ right.astype(np.int64)
    np.testing.assert_array_equal(result(task, sketch, target, [left, right], 3), truth)


@pytest.mark.parametrize("text", TARGETS)
def test_every_product_of_two_bytes_is_exact(text: str) -> None:
    """All bytes of the data and of the weights meet: those beyond the range are what the program makes of them."""
    target = here(text)
    left = np.repeat(np.arange(256).astype(np.uint8)[:, None], 17, axis=1)
    right = np.repeat(np.arange(256).astype(np.uint8).view(np.int8)[None, :], 17, axis=0)
    task = Task.of(parse(text_of(256, 256, 17)), target, 1)
    truth = left.astype(np.int64) @ np.clip(right, -64, 64).astype(np.int64)
    np.testing.assert_array_equal(result(task, small(task)[0], target, [left, right], 5), truth)


@pytest.mark.parametrize("text", [*TARGETS, WITHOUT])
def test_a_bound_that_is_one_too_large_is_caught(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the rewrite believed 65, the instruction would saturate, as its operator says, and the check of trials sees it."""
    target, m = (
        here(text),
        32 + [*TARGETS, WITHOUT].index(text),
    )  # other sizes on each, for what was applied once is kept
    sketch = small(Task.of(parse(text_of(m, 32, 32)), TARGETS["x86:avx2"], 1))[0]
    task = Task.of(parse(text_of(m, 32, 32, bound=65)), target, 1)
    with pytest.raises(ProgramError, match="sums of two products are"):
        random_config(task, sketch, np.random.default_rng(0))
    monkeypatch.setattr(dot_words, "_sums_of_two", lambda *_: (0, 0))
    values = random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    for number in (65, -65, 64, -64):
        given = [np.full((m, 32), 255, np.uint8), np.full((32, 32), number, np.int8)]
        wrong = complaint(task, sketch, values, 0, inputs=given)
        assert (wrong is None) == (abs(number) == 64), wrong


@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("sizes", [(37, 53, 120), (1, 40, 66)])
def test_all_ways_are_right(sizes: tuple[int, int, int], text: str) -> None:
    target, rng = here(text), np.random.default_rng(list(sizes))
    task = Task.of(parse(text_of(*sizes)), target, 2)
    found = small(task)
    assert found
    for sketch in [found[n] for n in rng.permutation(len(found))[:2]]:
        values = random_config(task, sketch, rng)
        assert values is not None
        assert complaint(task, sketch, values, 3, at_end=bool(rng.integers(2))) is None, f"{sketch.title} {values}"


def test_sums_are_added_as_halves_where_instructions_of_bytes_are() -> None:
    for text, target in TARGETS.items():
        assert added(Task.of(parse(text_of(48, 48, 64, bound=32)), target, 1)), text
        assert added(Task.of(parse(held(48, 48, 64)), target, 1)), text
        assert not added(Task.of(parse(text_of(48, 48, 64)), target, 1)), text
        assert not added(Task.of(parse(text_of(48, 48, 60, bound=32)), target, 1)), text  # an odd number of words
    for text in (WITHOUT, "x86:avx512+avx512vnni", "aarch64:neon"):
        assert not added(Task.of(parse(text_of(48, 48, 64, bound=32)), parse_target(text), 1)), text


@pytest.mark.parametrize("text", [*TARGETS, WITHOUT])
@pytest.mark.parametrize(("kind", "bound"), [("u8", 32), ("i8", 32), ("u8", 16), ("u7", 64), ("held", 64)])
def test_sums_of_halves_are_exact_at_all_ends(kind: str, bound: int, text: str) -> None:
    """Words of the ends of both ranges beside words of ends: sums of two words, or four, reach their own ends."""
    target, having = here(text), TRIED[text]
    ends = {"i8": (-128, -127, 0, 127), "u7": (0, 1, 126, 127)}.get(kind, (0, 1, 254, 255))
    left = np.array(list(combinations(ends, repeat=4)), np.int8 if kind == "i8" else np.uint8)
    right = np.array(list(combinations((-bound, 1 - bound, bound - 1, bound), repeat=4)), np.int8)
    rng = np.random.default_rng([bound, len(kind)])
    left = np.concatenate([left, left, left, left[rng.permutation(256)]], axis=1)
    right = np.concatenate([right, right, right[rng.permutation(256)], -right], axis=1)
    if kind == "held":
        right[:, 4:8] = -right[:, [0, 1, 2, 3]]
        right[:, 12:] = -right[:, 8:12]
    right = right.T.copy()
    program = text_of(256, 256, 16, "i8" if kind == "i8" else "u8", bound)
    if kind == "u7":
        program = program.replace("W[k: 16", "X[i: 256, k: 16] = min(A[i, k], 127)\nW[k: 16").replace(
            "i32(A[", "i32(X["
        )
    task = Task.of(parse(held(256, 256, 16) if kind == "held" else program), target, 2)
    found = added(Task.of(task.program, having, 2))
    assert found and all(("words=4" in sketch.text) == (bound == 16) for sketch in found)
    truth = left.astype(np.int64) @ right.astype(np.int64)
    for sketch in [found[n] for n in rng.permutation(len(found))[:2]]:
        np.testing.assert_array_equal(result(task, sketch, target, [left, right], 3), truth)


@pytest.mark.parametrize("text", TARGETS)
def test_one_instruction_widens_two_words(text: str) -> None:
    task = Task.of(parse(text_of(48, 48, 64, bound=32)), TARGETS[text], 1)
    values = random_config(task, added(task)[0], np.random.default_rng(0))
    assert values is not None
    asm = build(task.program, added(task)[0], values, TARGETS[text], 1, texts=True).texts["asm"]
    assert asm.count("vpmaddubsw") == 2 * asm.count("vpmaddwd") > 0


@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("sizes", [(37, 53, 120), (64, 40, 64), (1, 40, 64)])
def test_all_ways_to_add_halves_are_right(sizes: tuple[int, int, int], text: str) -> None:
    target, rng = here(text), np.random.default_rng(list(sizes))
    task = Task.of(parse(held(*sizes)), target, 2)
    found = added(task)
    assert found
    for sketch in [found[n] for n in rng.permutation(len(found))[:3]]:
        values = random_config(task, sketch, rng)
        assert values is not None
        assert complaint(task, sketch, values, 3, at_end=bool(rng.integers(2))) is None, f"{sketch.title} {values}"


WINDOW = """
    input X: u8[12, 12, 16]
    constant F: i8[3, 3, 16, 24]
    W[r: 3, s: 3, c: 16, o: 24] = min(max(F[r, s, c, o], -32), 32)
    Y[p: 12, q: 12, o: 24] = sum[r: 3, s: 3, c: 16](i32(select(p + r >= 1 and p + r < 13 and q + s >= 1 and q + s < 13,
        X[p + r - 1, q + s - 1, c], 3)) * i32(W[r, s, c, o]))
    return Y
    """


@pytest.mark.parametrize("text", TARGETS)
def test_windows_add_halves(text: str) -> None:
    target, rng = here(text), np.random.default_rng(3)
    task = Task.of(parse(WINDOW), target, 2)
    found = [sketch for sketch in added(task) if "lines outside" in sketch.title]
    assert found
    for sketch in found:
        values = random_config(task, sketch, rng)
        assert values is not None
        assert complaint(task, sketch, values, 3) is None, f"{sketch.title} {values}"
