"""Points that conditions on axes leave out: which they are, how many, and kernels that skip them."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from helpers.emission.loops import HOST, run
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import check_case, exact_inputs, run_lowered
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.cost_model.levels import levels
from tilesmith.schedules.auto import derive
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.schedules.useful import points_of_use, useful
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program, Stage
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply.tiers import analytic_pick

NARROW = parse_target("x86:avx512;vector=128")
WIDE = parse_target("x86:avx512")  # few vectors in a row, so that tiles of them are seldom ragged
OPERATORS = ("<=", "<", ">=", ">")


def triangular(random: Random) -> Program:
    """A chain whose last sum counts some terms only, by a condition on two or three axes."""
    i, j, k = (random.randint(3, 19) for _ in range(3))
    left, right = random.choice((1, 1, 2, 3)), random.choice((1, 1, 2))
    condition = f"{left} * j {random.choice(OPERATORS)} {right} * i + {random.randint(-4, 6)}"
    if random.random() < 0.3:
        condition += f" and j + {random.randint(-3, 3)} {random.choice(OPERATORS)} l"
    reduction, nothing = random.choice((("sum", "0"), ("max", "-inf"), ("min", "inf")))
    return canonical(parse(f"""
input a: f32[{i}, {k}]
input b: f32[{k}, {j}]
input c: f32[{j}, {k}]
s[i: {i}, j: {j}] = sum[k: {k}](a[i, k] * b[k, j])
t[i: {i}, j: {j}] = max(s[i, j], 0) + abs(s[i, j])
y[i: {i}, l: {k}] = {reduction}[j: {j}](select({condition}, t[i, j] * c[j, l], {nothing}))
z[i: {i}, l: {k}] = min(max(y[i, l], -1e6), 1e6)
return z
""".strip()))  # fmt: skip


def left(stage: Stage, program: Program) -> int:
    """Points that no bound of a stage leaves out, one by one."""
    bounds = useful(program).get(stage.name, ())
    count = 0
    for point in product(*(range(a.extent) for a in stage.all_axes)):
        at = dict(zip((a.name for a in stage.all_axes), point, strict=True))
        count += all(form.constant + sum(c * at[n] for n, c in form.coefficients.items()) <= 0 for form in bounds)
    return count


@pytest.mark.parametrize("seed", range(12))
def test_points_are_counted_one_by_one(seed: int) -> None:
    program = triangular(Random(seed))
    for stage in program.stages:
        assert points_of_use(stage, useful(program).get(stage.name, ())) == left(stage, program), program


def test_what_only_unused_points_read_is_of_no_use_either() -> None:
    program = canonical(ops.attention(1, 6, 6, 5, causal=True))
    found = useful(program)
    assert sorted(found) == ["t0", "t3", "t4", "t5", "t6"]  # t1 is -inf there, and the maximum t2 reads it
    assert not useful(canonical(ops.attention(1, 6, 6, 5)))


def test_outputs_and_integers_are_computed_everywhere() -> None:
    text = """
input a: {dtype}[6, 6]
s[i: 6, j: 6] = a[i, j] * a[i, j]
y[i: 6] = sum[j: 6](select(j <= i, s[i, j], 0))
return {outputs}
"""
    assert "t0" in useful(canonical(parse(text.format(dtype="f32", outputs="y").strip())))
    assert "t0" not in useful(canonical(parse(text.format(dtype="i32", outputs="y").strip())))
    assert "t0" not in useful(canonical(parse(text.format(dtype="f32", outputs="s, y").strip())))


@pytest.mark.parametrize("seed", range(8))
def test_any_sketch_of_any_condition(seed: int) -> None:
    random = Random(100 + seed)
    program = body_of(triangular(random))
    sketches = derive(program)
    for sketch in random.sample(sketches, min(2, len(sketches))):
        check_case(program, sketch, NARROW, random, 9000)
        for values in some_configs(program, sketch, 1):
            assert_runs(program, sketch.apply(program, HOST, values), seed)


def by_rows(program: Program) -> Sketch:
    return next(s for s in derive(program) if any(key.endswith("by rows") and on for key, on in s.variants))


def test_terms_that_are_left_out_may_be_anything() -> None:
    program = body_of(ops.attention(1, 9, 9, 5, causal=True))
    sketch = by_rows(program)
    inputs = exact_inputs(program, 5)
    inputs[2].reshape(9, 5)[6:] = np.array([[np.inf], [np.nan], [-np.inf]])  # of no use to the rows 0 .. 5
    inputs[1].reshape(9, 5)[7] = np.nan
    (wanted,) = evaluate(program, inputs)
    whole = wanted.reshape(9, 5)
    assert np.isfinite(whole[:6]).all() and not np.isfinite(whole[6:]).any()
    for values in some_configs(program, sketch, 3):
        (found,) = run(loop_ir(sketch.apply(program, HOST, values), HOST), inputs, 1)
        assert np.allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_the_cost_model_counts_what_is_run_on_average() -> None:
    program = body_of(ops.attention(1, 64, 64, 4, causal=True))
    sketch = by_rows(program)
    for values in some_configs(program, sketch, 4, WIDE):
        tree = sketch.apply(program, NARROW, values)
        interpreter, _ = run_lowered(program, loop_ir(tree, NARROW), exact_inputs(program, 1))
        counted = levels(tree)
        for stage in counted.stages.values():
            if not stage.loops.loops or stage.loops.copies is not None:
                continue
            ran = interpreter.trips[stage.loops.loops[-1].name]
            assert ran == pytest.approx(float(stage.trips[-1]), rel=0.15), (stage.name, values)


def test_configs_of_what_ends_early_are_ranked() -> None:
    """The walk over the loops of a candidate is recorded: only some functions of arrays can be."""
    task = Task.of(ops.attention(1, 64, 64, 4, causal=True), HOST, 2)
    assert analytic_pick(task).sketch.tunables


def test_a_window_that_is_written_out_has_no_end_of_its_own() -> None:
    program = body_of(ops.max_pool2d(1, 2, 19, 45, kernel=3, stride=2, padding=1))
    asked = derive(program)[-1]
    assert useful(program)
    for values in some_configs(program, asked, 3):
        assert "of_use" not in str(loop_ir(asked.apply(program, HOST, values), HOST))


def test_what_words_are_made_of_is_of_use_as_far_as_a_word_is() -> None:
    """The term of l words counts where 2 l <= i: words up to that, and elements up to the second one of the last word."""
    text = """
        input x: bf16[20, 24]
        input V: i32[12, 5]
        P[i: 20, j: 24] = x[i, j] + x[i, j]
        W[i: 20, l: 12] = bf16_word(f32(P[i, 2 * l]), f32(P[i, 2 * l + 1]))
        O[i: 20, d: 5] = sum[l: 12](select(2 * l <= i, bf16_dot(W[i, l], V[l, d]), 0))
        return O
        """
    program = canonical(parse(text))
    words, elements = program.stages[1], program.stages[0]
    assert left(words, program) == sum(i // 2 + 1 for i in range(20))
    assert left(elements, program) == sum(min(i + 2, 24) for i in range(20))


def words_of_rows(dtype: str, stand_in: str) -> Program:
    """Products of words of rows, of which a condition makes zeros, in tiles of 2 x 16 elements."""
    kind, dot, pack, group = {
        "bf16": ("f32", "bf16_dot", "bf16_word", 2),
        "i8": ("i32", "signed_quad_dot", "byte_quad", 4),
    }[dtype]
    terms = [
        f"select({group} * l + {group * 3} * b + {e} <= i, {kind}(x[i, {group} * l + {group * 3} * b + {e}]), 0)"
        for e in range(group)
    ]
    return canonical(
        parse(f"""
        input x: {dtype}[40, {group * 12}]
        input V: i32[4, 3, 5]
        W[i: 40, b: 4, l: 3] = {pack}({", ".join(terms)})
        P[i: 40, d: 5] = sum[b: 4, l: 3]({dot}(W[i, b, l], V[b, l, d]))
        {stand_in}
        """)
    )


SEEN = "E[i: 40, d: 5] = sum[j: 24](select(not abs(P[i, d]) < 1e38, select(j <= i, bf16_low(W[i, j // 6, j % 6 // 2]), 0), 0))"
CHOSEN = "O[i: 40, d: 5] = select(abs(P[i, d]) < 1e38, P[i, d], E[i, d])\nreturn O"


def test_products_with_words_of_zeros_are_of_no_use() -> None:
    """Of bytes always; of floats only as far as a sum that stands in looks at no such word: zero times infinity is NaN."""
    of_bytes = words_of_rows("i8", "return P")
    assert left(of_bytes.stages[1], of_bytes) == 5 * sum(min(i // 4 + 1, 12) for i in range(40))
    assert left(of_bytes.stages[0], of_bytes) == 40 * 12  # all words are written: tiles hold them
    alone, beside = words_of_rows("bf16", "return P"), words_of_rows("bf16", f"{SEEN}\n{CHOSEN}")
    assert not useful(alone)
    blocks = sum(min(i // 6 + 1, 4) for i in range(40))
    assert left(beside.stages[1], beside) == 5 * 3 * blocks
    looks = words_of_rows("bf16", f"{SEEN.replace('select(j <= i, ', 'select(j <= i + 6, ')}\n{CHOSEN}")
    assert left(looks.stages[1], looks) == 5 * 3 * sum(min((i + 6) // 6 + 1, 4) for i in range(40))
    everywhere = words_of_rows("bf16", f"{SEEN.replace('select(j <= i, ', 'select(j % 2 <= i, ')}\n{CHOSEN}")
    assert "t1" not in useful(everywhere)
