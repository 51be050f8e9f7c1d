"""Statements and loops: compiled code against NumPy, with every argument beside a protected page."""

from __future__ import annotations

import numpy as np
import pytest

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
    random,
    read,
    result,
    run,
    serial,
    store,
    unrolled,
    update,
)
from tilesmith.codegen.ir.loop_ir import Allocate, Buffer, For, If, Let, LoopProgram, Scope, Statement
from tilesmith.codegen.passes.lift_branches import lift_branches
from tilesmith.codegen.pipeline import assembled
from tilesmith.common.errors import InternalError
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import f32, i64
from tilesmith.tensor.expr import Const, Expr, call

I, J, K, U, L, T = names("i j k u l t")  # noqa: E741


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def matmul_nest(m: int, n: int, k: int) -> LoopProgram:
    a, b, c = given("A", m, k), given("B", k, n), result("C", m, n)
    inner = serial(K, k, update(c, (I, J), "sum", read(a, I, K) * read(b, K, J)))
    return program((a, b, c), serial(I, m, serial(J, n, store(c, (I, J), ZERO), inner)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("at_end", [False, True])
def test_scalar_nest(threads: int, at_end: bool) -> None:
    loops = matmul_nest(7, 5, 9)
    a, b = (random(buffer) for buffer in loops.arguments[:2])
    close(run(loops, [a, b], threads, at_end=at_end)[0], a @ b)


@pytest.mark.parametrize("extent", [1, 3, 4, 16, 17, 31, 33, 64])
@pytest.mark.parametrize("width", [2, 4, 16, 32])
@pytest.mark.parametrize("at_end", [False, True])
def test_masked_vectors_stay_inside(extent: int, width: int, at_end: bool) -> None:
    x, y, z = given("x", extent), given("y", extent), result("z", extent)
    at = J * width + L
    body = lanes(L, width, store(z, (at,), read(x, at) * read(y, at) + read(x, at)), valid=index_left(extent, width))
    loops = program((x, y, z), serial(J, -(-extent // width), body))
    values = [random(x), random(y)]
    close(run(loops, values, at_end=at_end)[0], values[0] * values[1] + values[0])


def index_left(extent: int, width: int) -> Expr:
    return Const(extent, i64) - J * width


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 9])
def test_rows_that_are_not_real_have_no_effect(rows: int) -> None:
    x, z = given("x", rows, 3), result("z", rows, 3)
    tile = unrolled(
        U,
        4,
        serial(K, 3, store(z, (I * 4 + U, K), read(x, I * 4 + U, K) + read(x, I * 4 + U, 2))),
        valid=Const(rows, i64) - I * 4,
    )
    loops = program((x, z), serial(I, -(-rows // 4), tile))
    value = random(x)
    close(run(loops, [value])[0], value + value[:, 2:])


@pytest.mark.parametrize("trips", [0, 1, 3, 4, 5, 11])
@pytest.mark.parametrize("unroll", [1, 2, 4])
def test_register_sum_runs_through_an_unrolled_loop(trips: int, unroll: int) -> None:
    """The trip count is read at run time, so neither the guard nor the remainder can be folded."""
    n, x, z = given("n", dtype=i64), given("x", 11), result("z", 2)
    total = Buffer("total", f32, (1,), Scope.REGISTER)
    loop = serial(K, least(read(n), 11), update(total, (0,), "sum", read(x, K)), unroll=unroll)
    body = Allocate(total, block(store(total, (0,), Const(1.0, f32)), loop, store(z, (0,), read(total, 0))))
    loops = program((n, x, z), body, store(z, (1,), ZERO))
    value = random(x)
    close(run(loops, [np.array(trips), value])[0], np.array([1 + value[:trips].sum(), 0]))


def test_register_defined_inside_a_loop_is_known_behind_it() -> None:
    x, z = given("x", 5), result("z", 1)
    last = Buffer("last", f32, (2,), Scope.REGISTER)
    first = If(K.equal(0), store(last, (0,), ZERO))
    loop = serial(K, 5, first, update(last, (0,), "sum", read(x, K)), serial(J, 3, store(last, (1,), read(last, 0))))
    loops = program((x, z), Allocate(last, block(loop, store(z, (0,), read(last, 1)))))
    value = random(x)
    close(run(loops, [value])[0], value.sum(keepdims=True))


def test_let_if_and_nested_bounds() -> None:
    """A triangle: z[i, j] = x[i, j] for j <= i, else -1."""
    x, z = given("x", 6, 6), result("z", 6, 6)
    low = Let("t", I + 1, serial(J, T, store(z, (I, J), read(x, I, J))))
    high = Let("t", Const(5, i64) - I, serial(J, T, store(z, (I, J + I + 1), Const(-1.0, f32))))
    value = random(x)
    actual = run(program((x, z), serial(I, 6, low, If(I < 5, high, store(z, (0, 0), read(z, 0, 0))))), [value])[0]
    close(actual, np.where(np.tri(6, dtype=bool), value, -1))


@pytest.mark.parametrize("at_end", [False, True])
def test_select_guards_reads(at_end: bool) -> None:
    """A padded stencil, with scalars and in lanes: nothing outside is read."""
    x, y, z = given("x", 21), result("y", 21), result("z", 21)

    def value(at: Expr) -> Expr:
        total: Expr = ZERO
        for shift in (-2, 0, 3):
            where = at + shift
            total = total + call("select", (where >= 0) & (where < 21), read(x, where), ZERO)
        return total

    scalar = serial(I, 21, store(y, (I,), value(I)))
    vector = serial(I, 2, lanes(L, 16, store(z, (I * 16 + L,), value(I * 16 + L)), valid=Const(21, i64) - I * 16))
    data = random(x)
    expected = data + np.r_[0, 0, data[:-2]] + np.r_[data[3:], 0, 0, 0]
    for actual in run(program((x, y, z), scalar, vector), [data], at_end=at_end):
        close(actual, expected)


def test_gather_scatter_and_lanes_that_meet() -> None:
    x, where = given("x", 32), given("where", 16, dtype=i64)
    z, histogram, quotient = result("z", 32), result("h", 4), result("q", 8)
    clamped = most(least(read(where, L), 31), 0)
    zero = (
        serial(I, 4, store(histogram, (I,), ZERO)),
        serial(I, 32, store(z, (I,), ZERO)),
        serial(I, 8, store(quotient, (I,), ZERO)),
    )
    body = lanes(
        L,
        16,
        store(z, (L * 2 + 1,), read(x, clamped)),
        update(histogram, (call("mod", read(where, L), Const(4, i64)),), "sum", read(x, L)),
        update(quotient, (L // 2,), "sum", read(x, L * 2)),
    )
    data, chosen = random(x), np.array([5, 40, -3, 1, 1, 31, 0, 7, 8, 9, 10, 11, 12, 2, 2, 2])
    outputs = run(program((x, where, z, histogram, quotient), *zero, body), [data, chosen])
    expected = np.zeros(32)
    expected[1::2] = data[chosen.clip(0, 31)]
    close(outputs[0], expected)
    close(outputs[1], np.bincount(chosen % 4, data[:16], 4))
    close(outputs[2], data[::2].reshape(8, 2).sum(1))


@pytest.mark.parametrize("combiner", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("extent", [5, 16, 37])
@pytest.mark.parametrize("register", [False, True])
def test_reduction_over_lanes(combiner: str, extent: int, register: bool) -> None:
    x, z = given("x", extent), result("z", 1)
    total = Buffer("total", f32, (1,), Scope.REGISTER) if register else z
    start = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}[combiner]
    value = read(x, J * 8 + L) + 1.0
    loop = serial(
        J, -(-extent // 8), lanes(L, 8, update(total, (0,), combiner, value), valid=Const(extent, i64) - J * 8)
    )
    body: Statement = block(store(total, (0,), Const(start, f32)), loop)
    if register:
        body = Allocate(total, block(body, store(z, (0,), read(total, 0))))
    data = random(x)
    reduce = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[combiner]
    close(run(program((x, z), body), [data])[0], reduce(data + 1, keepdims=True), 1e-4)


def test_vector_accumulator_ignores_lanes_that_are_not_real() -> None:
    """exp(0) is 1: the last, partial vector must leave the other lanes alone."""
    x, z = given("x", 21), result("z", 1)
    acc = Buffer("acc", f32, (8,), Scope.REGISTER)
    add = lanes(L, 8, update(acc, (L,), "sum", call("exp", read(x, K * 8 + L))), valid=least(Const(21, i64) - K * 8, 8))
    end = lanes(L, 8, update(z, (0,), "sum", read(acc, L)))
    body = block(lanes(L, 8, store(acc, (L,), ZERO)), serial(K, 3, add), store(z, (0,), ZERO), end)
    data = random(x)
    close(run(program((x, z), Allocate(acc, body)), [data])[0], np.exp(data).sum(keepdims=True))


def test_private_register_of_each_lane() -> None:
    x, z = given("x", 16), result("z", 16)
    own = Buffer("own", f32, (1,), Scope.REGISTER)
    inner = block(
        store(own, (0,), ZERO), serial(K, 3, update(own, (0,), "sum", read(x, L))), store(z, (L,), read(own, 0))
    )
    data = random(x)
    close(run(program((x, z), lanes(L, 16, Allocate(own, inner))), [data])[0], data * 3)


def test_branch_on_which_lanes_differ() -> None:
    x, z = given("x", 16), result("z", 16)
    choice = If(read(x, L) > 0, store(z, (L,), read(x, L)), store(z, (L,), read(x, L) * 0.5))
    data = random(x)
    close(run(program((x, z), lanes(L, 16, choice)), [data])[0], np.where(data > 0, data, data / 2))


def test_branches_move_out_of_unrolled_loops() -> None:
    """And only there, and only if they are the same for all trips."""
    x, z = given("x", 3, 4, 8), result("z", 3, 4, 8)
    at = (K, U, L)
    first, other, last = (store(z, at, read(x, *at) * factor) for factor in (2.0, 3.0, 5.0))
    inner = lanes(L, 8, If(K.equal(0), first, If(U < 2, other, last)), valid=Const(7, i64))
    loops = program((x, z), serial(K, 3, unrolled(U, 4, inner)))
    lifted = lift_branches(loops)
    top = lifted.nests[0].body
    assert isinstance(top, For) and isinstance(top.body, If) and isinstance(top.body.otherwise, For)
    assert isinstance(top.body.otherwise.body, If)
    data = random(x)
    factors = np.array([[2, 2, 2, 2], [3, 3, 5, 5], [3, 3, 5, 5]])[:, :, None]
    for candidate in (loops, lifted):
        close(run(candidate, [data])[0][..., :7], (data * factors)[..., :7])


def test_loops_that_differ_from_lane_to_lane_run_one_by_one() -> None:
    x, z = given("x", 8), result("z", 8)
    body = lanes(L, 8, store(z, (L,), ZERO), serial(K, L + 1, update(z, (L,), "sum", read(x, K))), valid=Const(7, i64))
    data = random(x)
    actual = run(program((x, z), body), [data])[0]
    close(actual[:7], data.cumsum()[:7])
    assert actual[7:].tobytes() == b"\xa5" * 4


def test_stack_scratch_workspace_and_table() -> None:
    x, z = given("x", 6, 16), result("z", 6, 16)
    shared = Buffer("shared", f32, (6, 16), Scope.WORKSPACE)
    scratch, stack = Buffer("scratch", f32, (16,), Scope.SCRATCH), Buffer("stack", f32, (16,), Scope.STACK)
    table = Buffer("table", f32, (6,), Scope.TABLE, values=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    reverse = serial(J, 16, store(scratch, (J,), read(x, I, 15 - J)))
    double = lanes(L, 16, store(stack, (L,), read(scratch, L) * read(table, I)))
    keep = lanes(L, 16, store(shared, (I, L), read(stack, L)))
    first = parallel(I, 6, Allocate(scratch, Allocate(stack, block(reverse, double, keep))))
    second = parallel(I, 6, lanes(L, 16, store(z, (I, L), read(shared, 5 - I, L) + read(table, 2))))
    data = random(x)
    expected = (data[:, ::-1] * np.arange(1, 7)[:, None])[::-1] + 3
    for threads in (1, 2):
        close(run(program((x, z), first, second, globals=(shared, table)), [data], threads)[0], expected)


@pytest.mark.parametrize("scope", [Scope.STACK, Scope.SCRATCH])
def test_private_memory_around_a_parallel_loop(scope: Scope) -> None:
    """What the trips only read is shared with them; what they write is their own."""
    x, z = given("x", 9, 4), result("z", 9, 4)
    ready, own = Buffer("ready", f32, (4,), scope), Buffer("own", f32, (4,), scope)
    fill = serial(J, 4, store(ready, (J,), read(x, 0, J)))
    trip = block(
        serial(J, 4, store(own, (J,), read(x, I, J) * read(ready, J))),
        serial(J, 4, store(z, (I, J), read(own, 3 - J))),
    )
    body = Allocate(ready, Allocate(own, block(fill, parallel(I, 9, trip))))
    data = random(x)
    for threads in (1, 2):
        close(run(program((x, z), body), [data], threads)[0], (data * data[0])[:, ::-1])


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 4), (5, 1, 7), (1, 9, 2), (3, 2, 1)])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_collapsed_parallel_loops_cover_every_trip_once(shape: tuple[int, int, int], threads: int) -> None:
    x, z = given("x", *shape), result("z", *shape)
    body = update(z, (I, J, K), "sum", read(x, I, J, K))
    zero = serial(I, shape[0], serial(J, shape[1], serial(K, shape[2], store(z, (I, J, K), ZERO))))
    again = parallel(I, shape[0], parallel(J, shape[1], parallel(K, shape[2], body)))
    data = random(x)
    close(run(program((x, z), zero, serial(T, 3, again)), [data], threads)[0], 3 * data)


def test_parallel_extents_known_at_run_time() -> None:
    n, x, z = given("n", dtype=i64), given("x", 8, 8), result("z", 8, 8)
    zero = serial(I, 8, serial(J, 8, store(z, (I, J), ZERO)))
    body = serial(
        T, 2, parallel(I, read(n), parallel(J, read(n) - T, parallel(K, 1, update(z, (I, J), "sum", read(x, I, J)))))
    )
    data = random(x)
    expected = np.zeros((8, 8))
    expected[:5, :5] += data[:5, :5]
    expected[:5, :4] += data[:5, :4]
    close(run(program((n, x, z), zero, body), [np.array(5), data], 2)[0], expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_constants_are_prepared(threads: int) -> None:
    x, z = given("x", 20), result("z", 20)
    w = Buffer("w", f32, (20,), Scope.CONSTANT)
    packed = Buffer("packed", f32, (32,), Scope.PREPARED, padded=True)
    pack = parallel(I, 32, store(packed, (I,), call("select", I < 20, read(w, least(I, 19)), ZERO)))
    at = I * 16 + L
    use = parallel(I, 2, lanes(L, 16, store(z, (at,), read(x, at) * read(packed, at)), valid=Const(20, i64) - I * 16))
    data, weight = random(x), random(w)
    close(run(program((x, w, z), use, globals=(packed,), prepare=(pack,)), [data, weight], threads)[0], data * weight)


@pytest.mark.parametrize("shift", [0, 1])
def test_streaming_stores_need_no_alignment(shift: int) -> None:
    """With shift 0 the output begins at a cache line, with 1 it does not; both ways are in the code."""
    x, z = given("x", 64 + shift), result("z", 64 + shift)
    at = I * 16 + L
    body = parallel(I, 4, lanes(L, 16, store(z, (at,), read(x, at), streaming=True)))
    loops = program((x, z), body, serial(J, shift, store(z, (64 + J,), read(x, 64 + J))))
    data = random(x)
    close(run(loops, [data], 2)[0], data)
    text = assembled(loops, parse_target("x86:avx512"), 2, texts=True).texts["asm"]
    assert "vmovntps" in text and "sfence" in text


def test_streaming_stores_of_odd_places_are_ordinary() -> None:
    x, z = given("x", 65), result("z", 65)
    at = I * 16 + L + 1
    loops = program(
        (x, z), store(z, (0,), read(x, 0)), serial(I, 4, lanes(L, 16, store(z, (at,), read(x, at), streaming=True)))
    )
    data = random(x)
    close(run(loops, [data])[0], data)
    assert "vmovntps" not in assembled(loops, parse_target("x86:avx512"), 1, texts=True).texts["asm"]


def test_wrong_loop_ir_is_reported() -> None:
    x, z = given("x", 4), result("z", 4)
    acc = Buffer("acc", f32, (4,), Scope.REGISTER)
    for body, message in (
        (Allocate(acc, store(z, (0,), read(acc, 0))), "before it is stored"),
        (Allocate(acc, serial(I, 4, store(acc, (I,), ZERO))), "not known when the code is written"),
        (store(z, (I,), ZERO), "outside of its loop"),
        (lanes(L, 3, store(z, (L,), ZERO)), "3 trips"),
        (store(acc, (0,), ZERO), "does not exist"),
    ):
        with pytest.raises(InternalError, match=message):
            run(program((x, z), body), [random(x)])
