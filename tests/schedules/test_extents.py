"""Extents in their four lives: an expression, a number, an array, a column; one code, one answer. And their text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesmith.common.errors import TemplateError
from tilesmith.schedules.extents import (
    Extent,
    Sym,
    as_extent,
    ceildiv,
    evaluate,
    leaf,
    leaves,
    maximum,
    minimum,
    parse_extent,
    product,
    round_up,
    to_text,
)
from tilesmith.schedules.recording import Column, Recording

NAMES = ("i.tile", "k", "extent(t0.a1)", "lanes(f32)", "target(l2)")
OPERATORS: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "ceildiv": ceildiv,
    "min": minimum,
    "max": maximum,
    "round_up": round_up,
    "<=": lambda a, b: a <= b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
DIVIDING = ("//", "%", "ceildiv", "round_up")

leaf_syms = st.sampled_from(NAMES).map(leaf)
environments = st.fixed_dictionaries({name: st.integers(1, 100) for name in NAMES})


def _combine(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    anything = children | st.integers(0, 9)
    plain = st.tuples(st.sampled_from([o for o in OPERATORS if o not in DIVIDING]), children, anything)
    dividing = st.tuples(st.sampled_from(DIVIDING), children, leaf_syms | st.integers(1, 9))
    logical = st.tuples(st.sampled_from("&|"), children, children)
    return plain | dividing | logical


trees = st.recursive(leaf_syms, _combine, max_leaves=12)


def build(tree: Any, environment: dict[str, Any] | None) -> Any:
    """The expression of a tree (environment None), or its value computed by the same code on numbers or arrays."""
    if isinstance(tree, Sym):
        return tree if environment is None else environment[str(tree.args[0])]
    if isinstance(tree, int):
        return tree
    operator, left, right = tree
    a, b = build(left, environment), build(right, environment)
    if operator in "&|" and environment is not None:
        return number(np.logical_and(a, b) if operator == "&" else np.logical_or(a, b))
    if operator == "&":
        return a & b
    if operator == "|":
        return a | b
    result = OPERATORS[operator](a, b)
    is_condition = operator in ("<=", "<", ">=", ">", "==", "!=")
    return number(result) if is_condition and environment is not None else result


def number(value: Any) -> Any:
    return as_extent(value) if isinstance(value, Column) else np.asarray(value, dtype=np.int64)


@given(trees, st.lists(environments, min_size=1, max_size=4))
def test_four_lives_agree(tree: Any, rows: list[dict[str, int]]) -> None:
    expression = build(tree, None)
    arrays = {name: np.array([row[name] for row in rows], dtype=np.int64) for name in NAMES}
    batched = np.broadcast_to(number(evaluate(expression, arrays)), (len(rows),))
    directly = np.broadcast_to(number(build(tree, arrays)), (len(rows),))
    recording = Recording({name: [row[name] for row in rows] for name in NAMES})
    results = [evaluate(expression, recording.columns()), number(build(tree, recording.columns()))]
    places = np.repeat(np.arange(len(rows), dtype=np.int32)[:, None], len(NAMES), axis=1)
    for played in recording.player(results).play(places):
        assert played.dtype == np.int64
        np.testing.assert_array_equal(played, batched)
    for index, row in enumerate(rows):
        one = evaluate(expression, row)
        assert isinstance(one, int)
        assert one == batched[index] == directly[index] == number(build(tree, row))


@given(trees, environments)
def test_text_round_trip(tree: Any, environment: dict[str, int]) -> None:
    expression = build(tree, None)
    text = to_text(expression)
    again = parse_extent(text)
    assert to_text(again) == text
    assert evaluate(again, environment) == evaluate(expression, environment)
    assert leaves(again) == leaves(expression)


@pytest.mark.parametrize(
    ("extent", "text"),
    [
        (leaf("a") + leaf("b") * 2, "a + b * 2"),
        ((leaf("a") + leaf("b")) * 2, "(a + b) * 2"),
        (leaf("a") - (leaf("b") - 1), "a - (b - 1)"),
        (leaf("a") - leaf("b") - 1, "a - b - 1"),
        (leaf("a") * (leaf("b") // leaf("c")), "a * (b // c)"),
        (ceildiv(leaf("extent(t0.a0)"), leaf("i.tile") * 2), "ceildiv(extent(t0.a0), i.tile * 2)"),
        ((leaf("a") <= 3) & (leaf("b") <= 4), "(a <= 3) & (b <= 4)"),
        ((leaf("a") <= 3) | (leaf("b") > 4) & (leaf("c") == 1), "(a <= 3) | (b > 4) & (c == 1)"),
        (minimum(leaf("a"), maximum(3, leaf("b"))), "min(a, max(3, b))"),
        (leaf("a") * -1, "a * -1"),
    ],
)
def test_text(extent: Extent, text: str) -> None:
    assert to_text(extent) == text
    assert to_text(parse_extent(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "a.b()", "f(a)", "extent(1)", "extent(a, b)", "min(a)", "[a]", "a if b else c", "1.5", "True",
        "a < b < c", "lambda: 1", "a ** 2", "'text'", "not a", "a and b", "-a",
    ],
)  # fmt: skip
def test_text_is_data(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an extent|expected a name"):
        parse_extent(text)


def test_no_truth_while_a_template_runs() -> None:
    with pytest.raises(TemplateError, match=r"the truth of 'i.tile <= 4' is not known") as caught:
        assert leaf("i.tile") <= 4
    assert "s.require" in caught.value.advice
    assert "s.variant" in caught.value.advice
    assert caught.value.expected


def test_no_number_while_a_template_runs() -> None:
    with pytest.raises(TemplateError, match=r"the number 'i.tile' is not known"):
        range(leaf("i.tile"))  # type: ignore[call-overload]


def test_a_column_is_no_number_and_no_array() -> None:
    column = Recording({"a": (1, 2)}).columns()["a"]
    for use in (bool, int, float, hash, np.asarray, np.array, lambda x: leaf("b") + x, lambda x: x == 1 or True):
        with pytest.raises(TypeError):
            use(column)


def test_folding() -> None:
    a = leaf("a")
    assert ceildiv(a, 1) is a
    assert product([1, a]) is a
    assert product([]) == 1
    assert evaluate(7, {}) == 7
    with pytest.raises(KeyError, match="a"):
        evaluate(a, {})
