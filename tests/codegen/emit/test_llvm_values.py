"""Every operator on every dtype, one element at a time and in lanes, against NumPy; conversions; special values."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from helpers.emission.loops import block, given, lanes, names, program, read, result, run, serial, store, update
from tilesmith.codegen.ir.loop_ir import Allocate, Buffer, Scope
from tilesmith.codegen.math.functions import FUNCTIONS
from tilesmith.codegen.pipeline import assembled
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.dtype import DTYPES, DType, Kind, bf16, boolean, f16, f32, i32, i64
from tilesmith.tensor.expr import Cast, Const, Expr, Op, call
from tilesmith.tensor.language import COMPARISONS, LOGIC, MATHEMATICS, OPERATORS, WORDS

I, L = names("i l")  # noqa: E741
COUNT = 64
FLOATS = [dtype for dtype in DTYPES.values() if dtype.is_float]
INTEGERS = [dtype for dtype in DTYPES.values() if dtype.is_integer]
NUMPY = {name: entry.value for name, entry in MATHEMATICS.items()} | {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide, "mod": np.mod,
    "neg": np.negative, "min": np.minimum, "max": np.maximum, "abs": np.abs, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and,
    "or": np.logical_or, "not": np.logical_not, "select": np.where,
}  # fmt: skip


def from_memory(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Values: float64 for bf16 bits and f16, else as they are."""
    if dtype == bf16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64) if dtype.is_float else array


def to_memory(values: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype == bf16:
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        rounded = bits + 0x7FFF + (bits >> 16 & 1)
        return np.where(np.isnan(values), 0x7FC0, rounded >> 16).astype(np.uint16)
    return values.astype(dtype.numpy)


def samples(dtype: DType, seed: int, positive: bool = False) -> np.ndarray:
    """Values in memory form: random, and for each type the ones where operators go wrong."""
    rng = np.random.default_rng(seed)
    if dtype == boolean:
        return rng.integers(0, 2, COUNT).astype(bool)
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        values = rng.integers(-9 if info.min else 0, 10, COUNT).astype(dtype.numpy)
        values[:4] = [info.min, info.max, info.min, 0]
        rng.shuffle(values)
        return values
    values = rng.standard_normal(COUNT) * 4
    if positive:
        return to_memory(abs(values) + 0.01, dtype)
    values[:8] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, -2.5]
    rng.shuffle(values)
    return to_memory(values, dtype)


def evaluate(
    make: object, arguments: list[tuple[np.ndarray, DType]], dtype: DType, target: Target | None = None
) -> list[np.ndarray]:
    """The results one by one, in lanes, and in lanes that are not all real."""
    count = len(arguments[0][0])
    buffers = [given(f"x{n}", count, dtype=kind) for n, (_, kind) in enumerate(arguments)]
    outs = [result(f"z{n}", count, dtype=dtype) for n in range(3)]

    def at(where: Expr) -> Expr:
        return make(*(read(buffer, where) for buffer in buffers))  # type: ignore[operator]

    wide, half = I * 16 + L, I * 8 + L
    one = serial(I, count, store(outs[0], (I,), at(I)))
    vector = serial(I, count // 16, lanes(L, 16, store(outs[1], (wide,), at(wide))))
    masked = serial(I, count // 8, lanes(L, 8, store(outs[2], (half,), at(half)), valid=Const(count, i64) - I * 8))
    loops = program((*buffers, *outs), block(one, vector, masked))  # of one nest: each is a module of LLVM
    values = [array for array, _ in arguments]
    return run(loops, values, target=target) if target else run(loops, values)


def check(actual: list[np.ndarray], expected: np.ndarray, dtype: DType, tolerance: float = 0.0) -> None:
    for array in actual:
        got = from_memory(array, dtype)
        want = from_memory(to_memory(expected, dtype), dtype) if dtype.is_float else expected.astype(dtype.numpy)
        if tolerance:
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(got, want)


def supported(name: str, dtype: DType) -> bool:
    if name in WORDS:
        return False  # operands and result differ in dtype: below
    if name in LOGIC:
        return dtype == boolean
    if name in ("div", *MATHEMATICS):
        return dtype.is_float
    if name in ("floordiv", "mod"):
        return dtype.is_integer
    return name in COMPARISONS or name in ("min", "max", "select") or dtype != boolean


CASES = [(name, dtype) for name in OPERATORS for dtype in DTYPES.values() if supported(name, dtype)]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_operator(name: str, dtype: DType) -> None:
    result_type = boolean if name in COMPARISONS or name in LOGIC else dtype
    positive = name in ("log", "log2", "rsqrt", "sqrt", "pow")
    arrays = [samples(dtype, seed, positive) for seed in range(OPERATORS[name].arity)]
    kinds = [dtype] * len(arrays)
    if name == "select":
        arrays, kinds = [samples(boolean, 5), *arrays[:2]], [boolean, dtype, dtype]
    if name == "pow":
        arrays[1] = to_memory(from_memory(arrays[1], dtype) / 4, dtype)
    actual = evaluate(lambda *args: Op(name, args, result_type), list(zip(arrays, kinds, strict=True)), result_type)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = NUMPY[name](*(from_memory(a, k) for a, k in zip(arrays, kinds, strict=True)))
    approximate = name in FUNCTIONS
    tolerance = 4 * dtype.eps if approximate or (name in ("div", "sqrt") and dtype.bits == 16) else 0.0
    check(actual, np.asarray(expected), result_type, tolerance)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("divisor", [1, 2, 3, 8, 100, -1, -3, 0])
def test_division_by_a_literal_floors(dtype: DType, divisor: int) -> None:
    if divisor < 0 and dtype.kind is Kind.UNSIGNED:
        return
    values = samples(dtype, 1)
    for name in ("floordiv", "mod"):
        actual = evaluate(lambda x, n=name: Op(n, (x, Const(divisor, dtype)), dtype), [(values, dtype)], dtype)
        with np.errstate(all="ignore"):
            check(actual, NUMPY[name](values, np.array(divisor, dtype.numpy)), dtype)


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if d.bits <= 16], ids=str)
@pytest.mark.parametrize("divisor", [2, 3, 6, 7, 10, 16, 100, 127, 255, 256, 1000])
def test_all_values_are_divided_by_a_literal(dtype: DType, divisor: int) -> None:
    if divisor > np.iinfo(dtype.numpy).max:
        return
    every = np.arange(np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max + 1).astype(dtype.numpy)
    for name in ("floordiv", "mod"):
        actual = evaluate(lambda x, n=name: Op(n, (x, Const(divisor, dtype)), dtype), [(every, dtype)], dtype)
        check(actual, NUMPY[name](every, np.array(divisor, dtype.numpy)), dtype)


@pytest.mark.parametrize("bound", [0.0, 1.0, -2.5, math.inf, math.nan])
@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bounds_keep_nan(dtype: DType, name: str, bound: float) -> None:
    values = samples(dtype, 2)
    for swapped in (False, True):
        actual = evaluate(
            lambda x, s=swapped: Op(name, (Const(bound, dtype), x) if s else (x, Const(bound, dtype)), dtype),
            [(values, dtype)],
            dtype,
        )
        check(actual, NUMPY[name](from_memory(values, dtype), bound), dtype)


@pytest.mark.parametrize(("name", "instruction"), [("min", "vminps"), ("max", "vmaxps")])
def test_extrema_of_vectors_keep_nan_by_two_instructions(name: str, instruction: str) -> None:
    x, y, z = given("x", 16), given("y", 16), result("z", 16)
    both = Op(name, (read(x, L), read(y, L)), f32)
    loops = program((x, y, z), lanes(L, 16, store(z, (L,), both)))
    lines = assembled(loops, parse_target("x86:avx512"), 1, texts=True).texts["asm"].splitlines()
    (extremum,) = [line for line in lines if instruction in line]
    assert "{%k" in extremum  # where the first is no NaN; else it stays
    assert [line for line in lines if "vcmpordps" in line] and not [line for line in lines if "vcmpunordps" in line]


@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_cast(source: DType, dtype: DType) -> None:
    """Where NumPy's result is defined: floats go to integers that hold them."""
    values = samples(source, 3)
    if source.is_float and dtype.is_integer:
        numbers = from_memory(values, source)
        low = 0 if dtype.kind is Kind.UNSIGNED else -100
        values = to_memory(np.where(np.isfinite(numbers), np.clip(numbers * 7, low, 100), 3), source)
    elif source.is_integer and dtype.bits == 16 and dtype.is_float:
        values = np.clip(values, -1000 if source.kind is Kind.SIGNED else 0, 100).astype(source.numpy)
    actual = evaluate(lambda x: Cast(x, dtype) if source != dtype else x, [(values, source)], dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = from_memory(values, source)
        expected = expected.astype(dtype.numpy) if dtype != bf16 else expected.astype(np.float32)
    check(actual, expected, dtype)


def test_cast_of_nan_can_be_clamped_as_an_index() -> None:
    """What a NaN becomes as an integer is open, but a clamp holds for it: nothing outside is read."""
    x, table, z = given("x", 16), given("t", 4), result("z", 16)
    number = Cast(read(x, L), i64)
    clamped = Op("max", (Op("min", (number, Const(3, i64)), i64), Const(0, i64)), i64)
    body = lanes(L, 16, store(z, (L,), read(table, clamped)))
    data = np.full(16, np.nan, np.float32)
    data[::2] = 1e30
    values = np.arange(4, dtype=np.float32)
    actual = run(program((x, table, z), body), [data, values])[0]
    assert set(actual) <= set(values)


@pytest.mark.parametrize("target", ["host", "x86:sse2"])
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_narrow_floats_round_to_nearest_even(dtype: DType, target: str) -> None:
    """Halfway cases, overflow to infinity and the smallest numbers, from f32."""
    step = 2.0 ** -(10 if dtype == f16 else 7)
    exact = [
        1 + step / 2,
        1 + 3 * step / 2,
        1 + step / 2 + 1e-7,
        -1 - step / 2,
        3e38,
        65519.9,
        65520.0,
        1e-7,
        2e-40,
        np.nan,
    ]
    values = np.resize(np.array(exact, np.float32), COUNT)
    actual = evaluate(lambda x: Cast(x, dtype), [(values, f32)], dtype, parse_target(target))
    with np.errstate(over="ignore"):
        check(actual, values, dtype)


def test_every_f16_widens_exactly_without_hardware() -> None:
    """All 65,536 patterns to f32 and back, on a processor without F16C."""
    x, wide, back = given("x", 65536, dtype=f16), result("w", 65536), result("b", 65536, dtype=f16)
    loop = serial(I, 65536, store(wide, (I,), Cast(read(x, I), f32)), store(back, (I,), Cast(read(wide, I), f16)))
    values = np.arange(65536, dtype=np.uint16).view(np.float16)
    widened, narrowed = run(program((x, wide, back), loop), [values], target=parse_target("x86:sse2"))
    np.testing.assert_array_equal(widened, values.astype(np.float32))
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(narrowed.view(np.uint16)[numbers], values.view(np.uint16)[numbers])
    assert np.isnan(narrowed[~numbers]).all()


@pytest.mark.parametrize("name", ["x86:avx2", "x86:sse2"])
def test_other_levels_of_x86(name: str) -> None:
    """Masks, gathers and conversions without AVX-512 give the same results."""
    target = parse_target(name)
    for dtype in (f32, bf16, f16, DTYPES["u8"], DTYPES["i32"], DTYPES["f64"]):
        values, others = samples(dtype, 1), samples(dtype, 2)
        operator = "add" if dtype.is_integer else "max"
        actual = evaluate(
            lambda x, y, o=operator, d=dtype: Op(o, (x, y), d), [(values, dtype), (others, dtype)], dtype, target
        )
        check(actual, NUMPY[operator](from_memory(values, dtype), from_memory(others, dtype)), dtype)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_sums_of_narrow_floats_are_rounded_once(dtype: DType) -> None:
    """1 + 100 * 0.001 would stay 1 if each step were rounded to bf16."""
    x, z = given("x", 100, dtype=dtype), result("z", 2, dtype=dtype)
    total = Buffer("total", dtype, (8,), Scope.REGISTER)
    data = to_memory(np.full(100, 0.001), dtype)
    exact = 1 + from_memory(data, dtype)[:96].sum()
    one = Const(1.0, dtype)
    alone = block(
        store(total, (0,), one),
        serial(I, 96, update(total, (0,), "sum", read(x, I) * one)),
        store(z, (0,), read(total, 0)),
    )
    start = Op("select", (L.equal(0), one, Const(0.0, dtype)), dtype)
    vectors = block(
        lanes(L, 8, store(total, (L,), start)),
        serial(I, 12, lanes(L, 8, update(total, (L,), "sum", read(x, I * 8 + L)))),
        store(z, (1,), Const(0.0, dtype)),
        lanes(L, 8, update(z, (1,), "sum", read(total, L))),
    )
    actual = run(program((x, z), Allocate(total, alone), Allocate(total, vectors)), [data])[0]
    np.testing.assert_allclose(from_memory(actual, dtype), exact, rtol=dtype.eps)


@pytest.mark.parametrize("target", ["host", "x86:avx2", "x86:sse2"])
def test_words_of_two_bfloat16(target: str) -> None:
    """Rounded to nearest even as NumPy's bits are: ties, overflow, subnormal numbers, infinities, and NaN of any payload."""
    rng = np.random.default_rng(3)
    patterns = rng.integers(0, 2**32, COUNT, dtype=np.uint64).astype(np.uint32)
    patterns[:12] = [
        0x3F808000, 0x3F818000, 0x3F808001, 0xBF807FFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF,
        0x00008000, 0x80018000, 0x00000001,
    ]  # fmt: skip
    low, high = patterns.view(np.float32), rng.permutation(patterns).view(np.float32)

    def rounded(values: np.ndarray) -> np.ndarray:
        bits = values.view(np.uint32).astype(np.uint64)
        kept = np.where(np.isnan(values), bits | 0x400000, bits + 0x7FFF + (bits >> 16 & 1))
        return (kept >> 16).astype(np.uint32)

    words = (rounded(low) | rounded(high) << 16).view(np.int32)
    processor = parse_target(target)
    for made in evaluate(lambda x, y: call("bf16_pair", x, y), [(low, f32), (high, f32)], i32, processor):
        np.testing.assert_array_equal(made, words)
    for made in evaluate(lambda x, y: call("bf16_word", x, y), [(low, f32), (high, f32)], i32, processor):
        for values, found in ((low, made.view(np.uint32) << 16), (high, made.view(np.uint32) & 0xFFFF0000)):
            small = np.abs(values) < np.finfo(np.float32).tiny  # may be zero, of either sign
            wanted = np.where(small & (found << 1 == 0), found, rounded(values) << 16)
            np.testing.assert_array_equal(found, wanted)
    away = (low.view(np.uint32).astype(np.uint64) + 0x8000).astype(np.uint32) & 0xFFFF0000  # ties go away from zero
    for near in evaluate(lambda x: call("bf16_near", x), [(low, f32)], f32, processor):
        np.testing.assert_array_equal(near.view(np.uint32), away)
    for name, bits in (("bf16_low", rounded(low) << 16), ("bf16_high", rounded(high) << 16)):
        for half in evaluate(lambda w, n=name: call(n, w), [(words, i32)], f32, processor):
            np.testing.assert_array_equal(half.view(np.uint32), bits)
    for there_and_back in evaluate(lambda x: Cast(Cast(x, bf16), f32), [(low, f32)], f32, processor):
        np.testing.assert_array_equal(there_and_back.view(np.uint32), rounded(low) << 16)


def test_one_half_of_a_word_may_be_a_scalar() -> None:
    values = samples(f32, 4)
    pairs = evaluate(lambda x: call("bf16_low", call("bf16_pair", x, Const(1.0, f32))), [(values, f32)], f32)
    check(pairs, from_memory(to_memory(values, bf16), bf16), f32)
