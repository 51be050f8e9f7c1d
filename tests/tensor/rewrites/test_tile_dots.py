"""tile_dots and bf16_tile_dots: sums over words that lie as tiles are those over elements, at sizes that no tile divides."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.matrix_pairs import matrix_pairs
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.tiles.dots import bf16_tile_dots, tile_dots
from tilesmith.tensor.text.parse import parse

KINDS = [("u8", "i8"), ("i8", "u8"), ("i8", "i8"), ("u8", "u8")]
WINDOW = """
    input X: u8[33, 3, 70]
    input W: i8[3, 2, 70, 19]
    Y[p: 16, o: 19] = sum[r: 3, s: 2, c: 70](i32(X[2 * p + r, s, c]) * i32(W[r, s, c, o]))
    return Y
    """


def product(a: str, b: str, m: int = 19, n: int = 21, k: int = 67) -> Program:
    wide = "f32" if "bf16" in (a, b) else "i32"
    return parse(
        f"""
        input A: {a}[{m}, {k}]
        input B: {b}[{k}, {n}]
        C[i: {m}, j: {n}] = sum[k: {k}]({wide}(A[i, k]) * {wide}(B[k, j]))
        return C
        """
    )


def same(program: Program, rewritten: Program) -> None:
    rng = np.random.default_rng(1)
    tensors = [declared.tensor for declared in program.inputs]
    ends = [(t.shape, t.dtype.numpy, np.iinfo(t.dtype.numpy)) for t in tensors]
    inputs = [rng.integers(end.min, end.max, shape, kind, endpoint=True) for shape, kind, end in ends]
    for one, other in zip(evaluate(program, inputs), evaluate(rewritten, inputs), strict=True):
        np.testing.assert_array_equal(one, other)
    assert parse(str(rewritten)) == rewritten


@pytest.mark.parametrize(("a", "b"), KINDS)
@pytest.mark.parametrize(("m", "n", "k"), [(19, 21, 67), (16, 32, 64), (1, 1, 1), (33, 16, 128)])
def test_products_of_bytes(a: str, b: str, m: int, n: int, k: int) -> None:
    program = product(a, b, m, n, k)
    same(program, tile_dots(program, "C", "i", "j", "k"))


@pytest.mark.parametrize(("a", "b"), KINDS)
@pytest.mark.parametrize(("m", "n", "k"), [(19, 21, 67), (16, 32, 64), (33, 16, 130)])
def test_words_of_columns_may_be_turned(a: str, b: str, m: int, n: int, k: int) -> None:
    text = str(product(a, b, m, n, k)).replace(f"B: {b}[{k}, {n}]", f"B: {b}[{n}, {k}]").replace("B[k, j]", "B[j, k]")
    program = parse(text)
    rewritten = tile_dots(program, "C", "i", "j", "k", turned=True)
    same(program, rewritten)
    assert [stage.name for stage in rewritten.stages] == ["C_rows", "C_lines", "C_columns", "C_products", "C"]
    assert rewritten.stage("C_columns").reads()[0].tensor == "C_lines"


@pytest.mark.parametrize(("a", "b"), KINDS)
def test_rows_and_columns_may_change_places(a: str, b: str) -> None:
    """What the words of rows and of columns hold is told by their sides, wherever they stand in the dot."""
    program = product(a, b)
    for rows, columns, kinds in (("i", "j", (a, b)), ("j", "i", (b, a))):
        rewritten = tile_dots(program, "C", rows, columns, "k")
        same(program, rewritten)
        found = matrix_pairs(rewritten.stage("C_products").bodies[0], rows, columns)
        assert found is not None and (found.a, found.b) == kinds and found.pairs == ((0, 0),)
        assert found.rows[0].tensor == "C_rows" and found.columns[0].tensor == "C_columns"


def test_a_window_slides_over_words() -> None:
    program = parse(WINDOW)
    rewritten = tile_dots(program, "Y", "p", "o", "c")
    same(program, rewritten)
    assert rewritten.tensors["Y_rows"].shape == (3, 2, 1, 33, 16), "two blocks of 64 elements, none of 16 rows"


def test_products_of_bfloat16() -> None:
    program = product("bf16", "bf16")
    rewritten = bf16_tile_dots(program, "C", "i", "j", "k")
    inputs = random_inputs(program, 0)
    (one,), (other,) = evaluate(program, inputs), evaluate(rewritten, inputs)
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("program", "rewrite"),
    [
        (product("bf16", "bf16"), tile_dots),
        (product("u8", "i8"), bf16_tile_dots),
        (product("i16", "i16"), tile_dots),
        (product("f32", "f32"), tile_dots),
    ],
)
def test_other_products_are_refused(program: Program, rewrite: object) -> None:
    with pytest.raises(ProgramError, match="is no product that tiles of narrow elements make"):
        rewrite(program, "C", "i", "j", "k")  # type: ignore[operator]
    with pytest.raises(ProgramError):
        rewrite(program, "C", "i", "i", "k")  # type: ignore[operator]
