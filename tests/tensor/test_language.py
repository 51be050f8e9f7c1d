"""The table of the expression language is whole, and each of its entries is right about itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import tilesmith
from tilesmith.common.errors import ProgramError
from tilesmith.tensor import mathematics
from tilesmith.tensor.dtype import DTYPES, DType, boolean, f32, f64, i32, i64
from tilesmith.tensor.expr import Const, Expr, Local, Op, Var, call
from tilesmith.tensor.language import MATHEMATICS, OPERATORS, Operator, Signature, enter, rounds
from tilesmith.tensor.oracle.roundings import FACTOR
from tilesmith.tensor.printing import print_expr
from tilesmith.tensor.text.parse import parse_expr

FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")
# What the operands may be and what comes of them, told a second time. "same": the dtype of the operands.
RULES: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(("add", "sub", "mul", "neg", "abs"), ((*FLOATS, *INTEGERS), "same")),
    **dict.fromkeys(("min", "max", "select"), ((*FLOATS, *INTEGERS, "bool"), "same")),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne"), ((*FLOATS, *INTEGERS, "bool"), "bool")),
    **dict.fromkeys(("floordiv", "mod"), (INTEGERS, "same")),
    **dict.fromkeys(("and", "or", "not"), (("bool",), "same")),
    **dict.fromkeys(("div", *MATHEMATICS), (FLOATS, "same")),
    **dict.fromkeys(("bf16_pair", "bf16_word"), (("f32",), "i32")),
    "bf16_near": (("f32",), "same"),
    **dict.fromkeys(("bf16_low", "bf16_high", "bf16_dot"), (("i32",), "f32")),
    "signed_halves": (("i16",), "i32"),
    **dict.fromkeys(
        (
            "byte_quad", "half_pair", "half_add", "quad_dot", "pair_dot", "signed_quad_dot", "unsigned_quad_dot",
            "small_quad_dot", "pair_sums",
        ),
        (("i32",), "same"),
    ),
}  # fmt: skip


def operands(entry: Operator, dtype: DType) -> list[Expr]:
    """Named values that an operator may take."""
    kinds = [boolean, dtype, dtype] if entry.name == "select" else [dtype] * entry.arity
    return [Var(f"x{n}") if kind == i64 else Local(f"x{n}", kind) for n, kind in enumerate(kinds)]


def uses() -> Iterator[tuple[str, DType]]:
    for name, entry in OPERATORS.items():
        yield from ((name, dtype) for dtype in DTYPES.values() if dtype in entry.signature.takes)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_takes_the_dtypes_it_is_made_for(name: str) -> None:
    takes, gives = RULES[name]
    for dtype in DTYPES.values():
        args = operands(OPERATORS[name], dtype)
        if dtype.name in takes:
            assert call(name, *args).dtype.name == (dtype.name if gives == "same" else gives)
        else:
            with pytest.raises(ProgramError, match=f"'{name}' is not defined on {dtype}"):
                call(name, *args)


@pytest.mark.parametrize(("name", "dtype"), list(uses()), ids=str)
def test_the_text_of_an_operator_is_read_as_it_was_written(name: str, dtype: DType) -> None:
    node = call(name, *operands(OPERATORS[name], dtype))
    inside = [node]
    if node.dtype == dtype and name != "select":
        inside += [call(name, node, *node.args[1:]), call(name, *node.args[:-1], node)]  # nested on each side
    for expr in inside:
        named = {arg.name: arg.dtype for arg in node.args}  # type: ignore[attr-defined]
        assert parse_expr(print_expr(expr), named) == expr


def test_every_function_of_mathematics_is_a_function_in_python() -> None:
    faces = [getattr(mathematics, name) for name in mathematics.__all__]
    x = Local("x", f32)
    made = [face(x, x) if face is tilesmith.power else face(x) for face in faces]
    missing = set(MATHEMATICS) - {node.name for node in made if isinstance(node, Op)}
    assert not missing, f"__all__ of tensor/mathematics.py lacks {missing}"
    assert set(mathematics.__all__) <= set(tilesmith.__all__)
    assert all(getattr(tilesmith, name) is face for name, face in zip(mathematics.__all__, faces, strict=True))
    assert all(face.__doc__ for face in faces) and all(entry.meaning for entry in MATHEMATICS.values())


SMOOTH = [name for name, entry in OPERATORS.items() if entry.rounding is not None]


@pytest.mark.parametrize("name", SMOOTH)
def test_errors_pass_through_an_operator_as_its_derivative_says(name: str) -> None:
    """Where operands are moved by all that they may be off, the result moves by no more than is told, and by nearly as much."""
    entry = OPERATORS[name]
    assert entry.rounding is not None
    random = np.random.default_rng(0)
    values = [random.uniform(0.2, 3.0, 500) for _ in range(entry.arity)]
    errors = [1e-7 * random.uniform(0.5, 1.0, 500) for _ in values]
    result = entry.value(*values)
    told = entry.rounding.slope(values, result, errors)
    moves = [
        np.abs(entry.value(*(v + s * e for v, s, e in zip(values, signs, errors, strict=True))) - result)
        for signs in product((-1, 1), repeat=entry.arity)
    ]
    most = np.maximum.reduce(moves)
    assert (most <= told * (1 + 1e-5) + 1e-15).all()
    assert (most >= 0.2 * told - 1e-12).mean() > 0.5  # not far from the truth: sin and cos are told by the worst place


@pytest.mark.parametrize(("name", "dtype"), [use for use in uses() if use[1] in (f32, i32, boolean)], ids=str)
def test_a_result_that_is_not_rounded_has_the_error_of_the_worst_case(name: str, dtype: DType) -> None:
    entry, random = OPERATORS[name], np.random.default_rng(1)
    if entry.exact is None or (dtype.is_float and entry.rounding is not None):
        return
    kinds = [arg.dtype for arg in operands(entry, dtype)]
    values = [drawn(kind, random) for kind in kinds]
    far = [random.integers(0, 2, 300) * (0.75 if kind.is_float else 1.0) for kind in kinds]
    value = entry.value(*values)
    error = entry.exact(values, [each / FACTOR for each in far])
    for signs in product((-1, 0, 1), repeat=len(values)):
        with np.errstate(divide="ignore"):
            other = entry.value(*(moved(*each) for each in zip(values, signs, far, strict=True)))
        if name in ("bf16_pair", "bf16_word"):  # both halves have the error of the worse one
            value, other = (OPERATORS["bf16_low"].value(word) for word in (entry.value(*values), other))
        apart = np.abs(np.subtract(other, value, dtype=np.float64))
        assert (apart <= FACTOR * error + 1e-12).all()


def drawn(dtype: DType, random: np.random.Generator) -> np.ndarray:
    if dtype == boolean:
        return random.integers(0, 2, 300).astype(bool)
    return random.integers(1, 9, 300) / 2 if dtype.is_float else random.integers(1, 9, 300).astype(dtype.numpy)


def moved(values: np.ndarray, sign: int, far: np.ndarray) -> np.ndarray:
    """Values off by what they may be off; a bool is the other one."""
    return values ^ (sign * far != 0) if values.dtype == bool else (values + sign * far).astype(values.dtype)


def test_only_operators_that_round_say_so() -> None:
    assert {name for name in OPERATORS if rounds(name)} == {
        "add", "sub", "mul", "div", *(set(MATHEMATICS) - {"floor", "ceil", "round"}),
    }  # fmt: skip


def test_an_entry_that_is_not_whole_is_refused() -> None:
    with pytest.raises(ValueError, match="two entries are called 'exp'"):
        enter(OPERATORS["exp"])
    with pytest.raises(ValueError, match="no rule says how errors reach"):
        Operator("third", 1, Signature(frozenset((f64, i32))), np.cbrt, rounding=OPERATORS["exp"].rounding)


def test_a_number_among_the_operands_has_the_dtype_that_the_operator_asks_for() -> None:
    assert parse_expr("bf16_pair(1, 2)", {}) == call("bf16_pair", Const(1.0, f32), Const(2.0, f32))
    assert parse_expr("bf16_low(7)", {}) == call("bf16_low", Const(7, i32))
    assert parse_expr("not true", {}) == Op("not", (Const(True, boolean),), boolean)
