"""What follows terms that are seldom asked for: in two copies, of which one knows that nobody asks."""

from __future__ import annotations

import numpy as np

from tilesmith.codegen.ir.loop_ir import If, Store, Update, statements
from tilesmith.codegen.passes.split_exceptional import split_exceptional
from tilesmith.codegen.pipeline import build, loop_program
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor.expr import Op, Read, walk
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
LIMIT = "18446744073709551616.0"
STEPS = parse_sketch("""
    sketch by hand
    step split(t2.a1, lanes(f32))
    step split(t2.a0, 4)
    step reorder(t2.a0.p0, t2.a1.p0, t2.a0.p1, t2.a1.p1)
    step unroll(t2.a0.p1)
    step vectorize(t2.a1.p1)
    step compute_at(t1, t2.a1.p0)
    step reorder(t1.a2, t1.a0, t1.a1)
    step unroll(t1.a0)
    step vectorize(t1.a1)
    """)


def program(condition: str, term: str = "y[j]") -> Program:
    """p = x x, and what stands in for it where it is huge: y + y."""
    return canonical(
        parse(f"""
            input x: f32[8, 64]
            input y: f32[64]
            p[i: 8, j: 64] = x[i, j] * x[i, j]
            e[i: 8, j: 64] = sum[k: 2](select(not abs(p[i, j]) < {LIMIT}, {term}, 0))
            z[i: 8, j: 64] = select({condition}, p[i, j], e[i, j])
            return z
            """)
    )


def branches(condition: str, term: str = "y[j]") -> list[If]:
    (*_, nest) = split_exceptional(loop_program(program(condition, term), STEPS, {}, HOST)).nests
    asked = [one for one in statements(nest.body) if isinstance(one, If) and isinstance(one.condition, Read)]
    assert len(asked) == 1
    return asked


def chooses(branch: object) -> bool:
    assert branch is not None
    stores = (one for one in statements(branch) if isinstance(one, Store) and one.buffer == "t2")  # type: ignore[arg-type]
    return any(isinstance(part, Op) and part.name == "select" for one in stores for part in walk(one.value))


def test_where_nobody_asks_nothing_is_chosen() -> None:
    (branch,) = branches(f"abs(p[i, j]) < {LIMIT}")
    assert branch.otherwise is not None
    assert chooses(branch.then) and not chooses(branch.otherwise)
    assert any(isinstance(one, Update) for one in statements(branch.then))
    assert not any(isinstance(one, Update) for one in statements(branch.otherwise))


def test_terms_that_read_beyond_a_border_are_written_once() -> None:
    """Tiles inside of the border would win nothing: their terms are as seldom."""
    (branch,) = branches(f"abs(p[i, j]) < {LIMIT}", "select(j + k - 1 >= 0 and j + k - 1 < 64, y[j + k - 1], 0)")
    assert branch.otherwise is not None
    assert chooses(branch.then) and not chooses(branch.otherwise)


def test_another_condition_is_left_to_choose() -> None:
    for condition in ("abs(p[i, j]) < 4", f"abs(p[7 - i, j]) < {LIMIT}"):
        (branch,) = branches(condition)
        assert chooses(branch.then) and chooses(branch.otherwise)


def test_results_are_the_same_asked_or_not() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 64), np.float32), rng.standard_normal(64, np.float32)
    x[2, 5], x[7, 63] = 1e19, np.nan
    plain, square = abs(x * x) < 2.0**64, x * x
    kernel = Kernel(build(program(f"abs(p[i, j]) < {LIMIT}"), STEPS, {}, HOST, 1))
    np.testing.assert_array_equal(kernel(x, y), np.where(plain, square, 2 * y))
    kernel = Kernel(build(program("abs(p[i, j]) < 4"), STEPS, {}, HOST, 1))
    wanted = np.where(abs(square) < 4, square, np.where(plain, 0, 2 * y))
    np.testing.assert_array_equal(kernel(x, y), wanted)
