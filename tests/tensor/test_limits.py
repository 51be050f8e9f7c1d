"""What is long works; what is too large is one clear error, at once."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tilesmith
from tilesmith import compute, placeholder
from tilesmith.common.errors import ArgumentError, ProgramError
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.expr import children
from tilesmith.tensor.limits import DEPTH, DIGITS, EXTENT, size_of
from tilesmith.tensor.text.canonical import program_key
from tilesmith.tensor.text.parse import parse


def program(expression: str, extent: int = 64) -> str:
    return f"input x: f32[{extent}]\ny[i: {extent}] = {expression}\nreturn y"


def test_a_sum_of_400_terms_simply_works() -> None:
    text = program(" + ".join(f"x[min(i + {k}, 63)]" for k in range(400)))
    whole = parse(text)
    assert parse(str(whole)) == whole
    assert program_key(whole) == program_key(parse(str(whole)))
    kernel = tilesmith.compile(whole, threads=1)
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    expected = [x[np.minimum(i + np.arange(400), 63)].astype(np.float64).sum() for i in range(64)]
    np.testing.assert_allclose(kernel(x), expected, atol=2e-3)


@pytest.mark.parametrize(
    "expression",
    ["(" * 2000 + "x[i]" + ")" * 2000, "-" * 200_000 + "x[i]", "exp(" * 3000 + "x[i]" + ")" * 3000,
     " + ".join(["x[i]"] * 5000), "".join("x[i] + (" for _ in range(2000)) + "x[i]" + ")" * 2000,
     "(" * 900 + " + ".join(["x[i]"] * 900) + ")" * 900 + " + x[i]" * 900, "x[" * 2000 + "i" + "]" * 2000,
     "select(" + "not " * 5000 + "true, x[i], 0)"],
)  # fmt: skip
def test_what_is_too_deep_is_one_error(expression: str) -> None:
    started = time.perf_counter()
    with pytest.raises(ProgramError, match=r"too (deep|large)") as caught:
        parse(program(expression))
    assert time.perf_counter() - started < 10
    assert str(DEPTH) in caught.value.expected
    assert "stage of its own" in caught.value.advice
    assert "^" in caught.value.where
    assert len(caught.value.where) < 2000


def test_parentheses_alone_make_nothing_deep() -> None:
    deep = DEPTH - 10
    assert parse(program("(" * deep + "x[i]" + ")" * deep)) == parse(program("x[i]"))


@pytest.mark.parametrize("number", ["9" * 5000, "9" * (DIGITS + 1)])
def test_a_number_of_too_many_digits_is_one_error(number: str) -> None:
    for text in (program(f"x[i] + {number}"), program("x[i]").replace("64", number)):
        with pytest.raises(ProgramError, match=f"a number of {len(number)} digits"):
            parse(text)


@pytest.mark.parametrize("extent", [EXTENT + 1, 2**62, 10**30])
def test_an_extent_too_large_is_one_error(extent: int) -> None:
    with pytest.raises(ProgramError, match=str(extent)) as caught:
        parse(program("x[i]", extent))
    assert str(EXTENT) in caught.value.expected
    with pytest.raises(ArgumentError):
        tilesmith.ops.matmul(m=extent, n=2, k=2)
    with pytest.raises(ProgramError):
        compute((extent,), lambda i: tilesmith.literal(1, "f32") * 2, name="y")


@pytest.mark.parametrize(
    ("text", "problem"),
    [("input x: f32[1048576, 1048576, 1048576]\ny[i: 2] = x[i, 0, 0]\nreturn y", "elements"),
     ("input x: f32[64]\ny[i: 1073741824, j: 1073741824] = sum[k: 64](x[k])\nreturn y", "points"),
     ("input x: f32[64]\ny[i: 1048576] = sum[j: 1048576, k: 1048576](x[0])\nreturn y", "points"),
     ("input x: f32[64]\ny[" + ", ".join(f"a{n}: 1" for n in range(40)) + "] = x[0]\nreturn y", "(dimensions|axes)"),
     ("x" * (1 << 23), "too long")],
)  # fmt: skip
def test_sizes_that_no_machine_has_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ProgramError, match=problem):
        parse(text)


def test_the_largest_extent_compiles_at_once() -> None:
    started = time.perf_counter()
    tilesmith.compile(parse(program("x[i] * 2", 1099511627689)), threads=1)  # a prime below 2^40
    assert time.perf_counter() - started < 20


def test_an_expression_written_in_python_is_looked_at_before_it_is_walked() -> None:
    def doubled(levels: int) -> None:
        x = placeholder((4,), name="x")

        def body(i):  # type: ignore[no-untyped-def]
            value = x[i]
            for _ in range(levels):
                value = value + value  # 2^levels nodes in one tree, few objects
            return value

        compute((4,), body, name="y")

    doubled(10)
    for levels in (60, 5000):
        with pytest.raises(ProgramError, match="too large"):
            doubled(levels)


def test_nodes_and_levels_are_counted_without_recursion() -> None:
    stage = parse(program("x[i] + x[i] * 2")).stages[0]
    assert size_of(stage.bodies[0], children) == (7, 4)


def test_stages_that_double_are_not_inlined_without_end() -> None:
    lines = ["input x: f32[64]", "t0[i: 64] = x[i]"]
    lines += [f"t{k + 1}[i: 64] = t{k}[i] + t{k}[i]" for k in range(40)]
    task = Task.of(parse("\n".join([*lines, "return t40"])), parse_target("x86:avx2"), 1)
    started = time.perf_counter()
    assert task.sketches, "rules, not only the nest as it stands"
    assert time.perf_counter() - started < 20


def test_a_byte_order_mark_begins_no_name() -> None:
    assert parse("\ufeff" + program("x[i]")) == parse(program("x[i]"))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("stack", {"shape": (4,), "count": 10**6}), ("split", {"shape": (10**6,), "parts": 10**6}),
     ("adaptive_max_pool2d", {"n": 1, "c": 1, "h": 4, "w": 4, "to": 10**6})],
)  # fmt: skip
def test_an_operator_of_too_many_parts_is_one_error(name: str, arguments: dict[str, object]) -> None:
    with pytest.raises(ArgumentError, match="too large"):
        getattr(tilesmith.ops, name)(**arguments)
