"""The rule of dots: which products it sees, and what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline import narrow_products
from helpers.pipeline.candidates import random_config
from tilesmith.codegen.pipeline import build
from tilesmith.cost_model.analytic import predict
from tilesmith.cost_model.cpu.analysis import analyse
from tilesmith.schedules.rules.cpu.dots import LEAST_DEPTH, LEAST_USES, LEAST_USES_CROSSED, dot_for
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512+avx512vnni+avx512bf16")
VNNI = parse_target("x86:avx512+avx512vnni")


def product(m: int = 64, n: int = 64, k: int = 64, a: str = "u8", b: str = "i8", kind: str = "input") -> str:
    return narrow_products.product(a, b, m, n, k, kind)


def found(text: str, target: str = TARGET.text) -> bool:
    program = parse(text)
    return dot_for(program, program.stages[-1], parse_target(target).matrix_instructions) is not None


def dotted(task: Task) -> list[Sketch]:
    return [sketch for sketch in task.sketches if "dots=true" in sketch.title]


def test_it_sees_products_that_the_target_has_an_instruction_for() -> None:
    assert found(product()) and found(product(a="bf16", b="bf16")) and found(product(a="i16", b="u8"))
    assert not found(product(a="bf16", b="bf16"), VNNI.text) and found(product(), VNNI.text)
    assert not found(product(a="bf16", b="bf16"), "x86:avx512") and not found(product(), "aarch64:neon")


@pytest.mark.parametrize("target", ["x86:avx512", "x86:avx2", "x86:sse2"])
def test_bytes_become_halves_where_nothing_multiplies_bytes(target: str) -> None:
    for a, b, rewrite in (("u8", "i8", "half_words"), ("i8", "i8", "half_words"), ("i16", "u8", "dot_words")):
        program = parse(product(a=a, b=b))
        one = dot_for(program, program.stages[0], parse_target(target).matrix_instructions)
        assert one is not None and (one.rewrite, one.moved) == (rewrite, "")


def test_it_leaves_alone_what_would_not_pay() -> None:
    assert not found(product(k=LEAST_DEPTH - 1)) and found(product(k=LEAST_DEPTH))
    assert not found(product(m=LEAST_USES - 1)), "each word of B would be used a few times only"
    assert found(product(m=LEAST_USES - 1, kind="constant")), "unless it is packed once"


def test_what_is_no_constant_is_moved_where_both_operands_have_a_sign() -> None:
    for kind, moved in (("constant", "A"), ("input", "A")):
        program = parse(product(a="i8", b="i8", kind=kind))
        one = dot_for(program, program.stages[0], TARGET.matrix_instructions)
        assert one is not None and one.moved == moved


def texts_of(text: str) -> dict[str, str]:
    """What becomes of the first sketch with dots."""
    task = Task.of(parse(text), TARGET, 1)
    sketch = dotted(task)[0]
    values = random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    return build(task.program, sketch, values, TARGET, 1, texts=True).texts


def test_constant_words_and_their_sums_are_made_once() -> None:
    loops = texts_of(product(a="i8", b="i8", kind="constant"))["loops"]
    prepared, called = loops.index("prepare "), loops.index("nest ")
    assert prepared < loops.index("byte_quad(i32(x1[") < called < loops.index("byte_quad(i32(x0[")
    assert prepared < loops.index("+= i32(x1[") < called and "x1" not in loops[called:]


def test_words_that_lie_side_by_side_are_loaded_as_they_are() -> None:
    """A row of bytes is a row of words already: no byte is loaded by itself, none is shuffled."""
    functions = texts_of(product(a="i8", b="i8"))["llvm"].split("define ")
    first, *others = [each for each in functions if "noalias readonly align 1" in each]
    assert "load <16 x i32>" in first and "xor <16 x i32>" in first
    assert "<16 x i8>" not in first.split("declare")[0] and any("load <16 x i8>" in other for other in others)


def test_bytes_that_lie_side_by_side_become_halves_by_one_instruction() -> None:
    target = parse_target("x86:avx2")
    for kind, instruction in (("u8", "vpmovzxbw"), ("i8", "vpmovsxbw")):
        task = Task.of(parse(product(a=kind, b="i8", kind="constant")), target, 1)
        values = random_config(task, dotted(task)[0], np.random.default_rng(0))
        assert values is not None
        texts = build(task.program, dotted(task)[0], values, target, 1, texts=True).texts
        assert instruction in texts["asm"]


def loops_of(text: str, *titles: str) -> list[str]:
    """The loops of all sketches with dots whose titles have these words."""
    task, found = Task.of(parse(text), TARGET, 1), []
    for sketch in dotted(task):
        if all(title in sketch.title for title in titles):
            values = random_config(task, sketch, np.random.default_rng(0))
            assert values is not None
            found.append(build(task.program, sketch, values, TARGET, 1, texts=True).texts["loops"])
    return found


def test_words_that_lie_there_are_read_where_they_are() -> None:
    """No nest copies them; but where elements are moved, words overlap rows, or a window slides, there is one."""
    text = product(kind="constant")
    assert all("quad_dot(byte_quad(i32(x0[" in loops for loops in loops_of(text, "words in place=true"))
    assert loops_of(text, "words in place=true")
    assert not any("quad_dot(byte_quad(" in loops for loops in loops_of(text, "words in place=false"))
    strided = """
        input X: u8[9, 21, 32]
        constant W: i8[32, 24]
        Y[p: 5, q: 11, o: 24] = sum[c: 32](i32(X[2 * p, 2 * q, c]) * i32(W[c, o]))
        return Y
        """
    for other in (product(k=62, kind="constant"), product(a="i8", b="i8", kind="constant"), strided):
        assert loops_of(other) and not loops_of(other, "words in place=true")


def test_words_of_columns_are_made_where_these_are_packed() -> None:
    """In a nest of their own they would go through memory once more."""
    packed = loops_of(product(), "columns outside=true", "pack columns=true")
    assert packed and all(loops.count("byte_quad(i32(x1[") == 1 and "copy0[" in loops for loops in packed)
    assert all("t1[" not in loops for loops in packed)


def test_words_beyond_a_border_are_left_out_together() -> None:
    """All of a vector or none, so that an address is chosen and no mask is needed."""
    task = Task.of(parse(narrow_products.PROGRAMS["bf16 window with a border, channels last"]), TARGET, 1)
    sketch = dotted(task)[0]
    values = random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    text = build(task.program, sketch, values, TARGET, 1, texts=True).texts["llvm"]
    assert "load <16 x i32>" in text and "ptr @harmless" in text and "llvm.masked.load.v32i16" not in text


@pytest.mark.parametrize(("a", "b", "times"), [("u8", "i8", 3.0), ("bf16", "bf16", 1.5)])
def test_the_model_predicts_what_the_instruction_gains(a: str, b: str, times: float) -> None:
    task = Task.of(parse(product(512, 512, 512, a, b, "constant")), TARGET, 1)
    ceilings, seconds = default_ceilings(TARGET, 1), {True: np.inf, False: np.inf}
    rng = np.random.default_rng(0)
    for sketch in task.sketches[1:]:
        for _ in range(8):
            values = random_config(task, sketch, rng)
            assert values is not None
            tree = sketch.apply(task.body, TARGET, values)
            uses = "dots=true" in sketch.title
            seconds[uses] = min(seconds[uses], float(predict(tree, TARGET, 1, ceilings, 1)[0]))
    assert times * seconds[True] < seconds[False]


@pytest.mark.parametrize(("crossed", "registers"), [(False, [16, 17]), (True, [20, 22])])
def test_products_that_are_added_apart_take_a_register(crossed: bool, registers: list[int]) -> None:
    """12 sums, 3 vectors, a word for all lanes and a product are one more than 16; with 2 vectors they are 16. Crossed words
    take two of each vector and word, and two sums of words."""
    target = parse_target("x86:avx2")
    task = Task.of(parse(product(120, 96, 96, kind="constant")), target, 1)
    wanted = ("pack rows=false", f"crossed={str(crossed).lower()}")
    sketch = next(one for one in dotted(task) if all(name in one.title for name in wanted))
    values = random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    found = []
    for rows, vectors in ((6, 2), (4, 3)):
        tree = sketch.apply(task.body, target, values | {"t2.rows": rows, "t2.vectors": vectors})
        works = [work for nest in analyse(tree, target, 1).nests for _, work in nest.work]
        found.append(max(float(np.asarray(work.registers)) for work in works))
    assert found == registers


def test_sums_of_bytes_are_multiplied_where_additions_are_instructions_of_their_own() -> None:
    """They cost as many instructions then, and half the multiplications; where few rows share a constant, memory bounds all."""

    def crosses(text: str, target: str) -> bool:
        sketches = Task.of(parse(text), parse_target(target), 1).sketches
        return any("rewrite(crossed_words" in sketch.text for sketch in sketches)

    many, few = product(kind="constant"), product(m=LEAST_USES_CROSSED - 1, kind="constant")
    assert crosses(many, "x86:avx2") and crosses(many, "x86:avx512") and not crosses(many, VNNI.text)
    assert not crosses(few, "x86:avx2") and not crosses(product(), "x86:avx2")


COLOURS = """
    input X: u8[1, 3, 32, 32]
    constant W: i8[24, 3, 3, 3]
    Y[p: 16, q: 16, o: 24] = sum[c: 3, r: 3, s: 3](
        i32(select(p * 2 + r >= 1 and q * 2 + s >= 1, X[0, c, p * 2 + r - 1, q * 2 + s - 1], 125)) * i32(W[o, c, r, s]))
    return Y
    """


@pytest.mark.parametrize("target", ["x86:avx2", VNNI.text])
def test_a_window_over_few_colours_has_words_of_neighbours(target: str) -> None:
    parsed = parse_target(target)
    task = Task.of(parse(COLOURS), parsed, 1)
    sketches = dotted(task)
    assert sketches and all("rewrite(window_words" in sketch.text for sketch in sketches)


def test_a_depthwise_filter_has_none() -> None:
    """Each element is in few sums: making a word of it takes as long as they do."""
    assert not found(
        """
        input X: u8[14, 14, 32]
        constant W: i8[32, 3, 3]
        Y[p: 12, q: 12, c: 32] = sum[r: 3, s: 3](i32(X[p + r, q + s, c]) * i32(W[c, r, s]))
        return Y
        """,
        "x86:avx2",
    )


def test_without_the_instruction_only_the_usual_structures_are_tried() -> None:
    """They are there for the search; most of a draft went to them."""
    text = product(m=256, n=256, k=256, kind="constant")
    sketches = Task.of(parse(text), VNNI, 1).sketches[1:]
    others = [sketch for sketch in sketches if "dots=false" in sketch.title]
    assert others and 3 * len(others) <= len(dotted(Task.of(parse(text), VNNI, 1)))


FOUR_BITS = """
    input x: {kind}[{m}, 256]
    constant w: u8[64, 128]
    constant s: f32[64, 4]
    Q[j: 64, k: 256] = i8(select(k % 2 == 0, i32(w[j, k // 2]) % 16, i32(w[j, k // 2]) // 16) - 8)
    G[g: 4, i: {m}, j: 64] = sum[k: 64](i32(x[i, 64 * g + k]) * i32(Q[j, 64 * g + k]))
    C[i: {m}, j: 64] = sum[g: 4](f32(G[g, i, j]) * s[j, g])
    return C
    """


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("kind", ["u8", "i8"])
def test_weights_of_four_bits_times_bytes_are_sums_of_words_in_their_groups(kind: str, m: int) -> None:
    """Half bytes are small, so that two products of them fit in 16 bits; a group is summed up where its scale is multiplied."""
    program = parse(FOUR_BITS.format(kind=kind, m=m))
    sketches = dotted(Task.of(program, parse_target("x86:avx2"), 1))
    assert sketches and all("rewrite(small_words" in sketch.text for sketch in sketches)
    assert all("ahead of" in sketch.text for sketch in sketches), "both sums are one nest, which asks for weights ahead"
