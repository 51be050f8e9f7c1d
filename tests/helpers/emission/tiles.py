"""A register-tiled matmul with a packed operand, written by hand: the loop structure of Goto and van de Geijn, Anatomy of
high-performance matrix multiplication (2008), with column blocks as the parallel loop."""

from __future__ import annotations

from helpers.emission.loops import (
    ZERO,
    block,
    given,
    lanes,
    least,
    most,
    names,
    parallel,
    program,
    read,
    result,
    serial,
    store,
    unrolled,
    update,
)
from tilesmith.codegen.ir.loop_ir import Allocate, Buffer, If, LoopProgram, Scope, Statement
from tilesmith.tensor.dtype import f32, i64
from tilesmith.tensor.expr import Const, Expr, call

J0, K0, I0, R, V, L, K = names("j0 k0 i0 r v l k")


def matmul(
    m: int, n: int, k: int, rows: int, vectors: int, depth: int, unroll: int = 4, width: int = 16
) -> LoopProgram:
    """C = A @ B: tiles of `rows` times `vectors` vectors of `width`, B packed in blocks of `depth` rows."""
    columns = vectors * width
    a, b, c = given("A", m, k), given("B", k, n), result("C", m, n)
    packed = Buffer("packed", f32, (depth, columns), Scope.SCRATCH, padded=True)
    acc = Buffer("acc", f32, (rows, columns), Scope.REGISTER)
    column: Expr = J0 * columns + V * width + L
    inside = V * width + L
    row = I0 * rows + R
    size = least(Const(k, i64) - K0 * depth, depth)
    real_rows = least(Const(m, i64) - I0 * rows, rows) if m % rows else None
    real_lanes = most(Const(n, i64) - J0 * columns - V * width, 0) if n % columns else None

    value: Expr = read(b, K0 * depth + K, column)
    if n % columns:
        value = call("select", column < n, value, ZERO)
    pack = serial(K, size, unrolled(V, vectors, lanes(L, width, store(packed, (K, inside), value))))

    def tile(body: Statement, edges: bool) -> Statement:
        over_lanes = lanes(L, width, body, valid=real_lanes if edges else None)
        return unrolled(R, rows, unrolled(V, vectors, over_lanes), valid=real_rows if edges else None)

    product = read(a, row, K0 * depth + K) * read(packed, K, inside)
    step = unrolled(
        R, rows, unrolled(V, vectors, lanes(L, width, update(acc, (R, inside), "sum", product))), valid=real_rows
    )
    first = tile(store(c, (row, column), read(acc, R, inside)), True)
    more = tile(update(c, (row, column), "sum", read(acc, R, inside)), True)
    one = Allocate(
        acc,
        block(
            tile(store(acc, (R, inside), ZERO), False),
            serial(K, size, step, unroll=unroll),
            If(K0.equal(0), first, more),
        ),
    )
    blocks = serial(K0, -(-k // depth), pack, serial(I0, -(-m // rows), one))
    return program((a, b, c), parallel(J0, -(-n // columns), Allocate(packed, blocks)))
