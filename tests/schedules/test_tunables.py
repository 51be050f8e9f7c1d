"""Tunables: their domains hold what hardware likes, their text parses back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesmith.common.errors import TemplateError
from tilesmith.schedules.extents import ceildiv, leaf
from tilesmith.schedules.tunables import Choice, Factor, Flag, Tunable, check_name, factor_values, parse_tunable


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 40))
def test_domain_of_a_factor(extent: int, at_most: int, at_least: int) -> None:
    at_most = max(at_most, at_least)
    parameter = Factor("f", extent, at_most, at_least, default=7).parameter({})
    values = parameter.values
    top = max(at_least, min(at_most, extent))
    assert list(values) == sorted(set(values))
    assert all(at_least <= v <= top for v in values)
    assert at_least in values
    liked = {v for v in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 64, 96, 128, 256, 512, 1024) if at_least <= v <= top}
    assert liked <= set(values)
    assert {d for d in range(1, extent + 1) if extent % d == 0 and at_least <= d <= top} <= set(values)
    best = values[parameter.default]
    assert abs(best - 7) == min(abs(v - 7) for v in values)


def test_domains_never_hold_divisors_alone() -> None:
    assert factor_values(1009, 1009)[:16] == list(range(1, 17))
    assert {505, 337, 253} <= set(factor_values(1009, 1009))  # near-divisors of a prime


def test_domain_follows_the_sizes() -> None:
    factor = Factor("f", ceildiv(leaf("extent(t0.a0)"), leaf("lanes(f32)")), at_most=6)
    assert factor.parameter({"extent(t0.a0)": 50, "lanes(f32)": 16}).values == (1, 2, 3, 4)
    assert factor.parameter({"extent(t0.a0)": 4096, "lanes(f32)": 16}).values == (1, 2, 3, 4, 5, 6)


def test_choices_and_flags_have_no_order() -> None:
    assert not Choice("c", (8, 2, 4), 2).parameter({}).ordered
    assert Choice("c", (8, 2, 4), 2).parameter({}).values == (8, 2, 4)
    assert Choice("c", (8, 2, 4), 2).parameter({}).default == 1
    assert Flag("f", True).parameter({}).values == (0, 1)
    assert Flag("f", True).parameter({}).default == 1


@pytest.mark.parametrize(
    ("tunable", "text"),
    [
        (Factor("i.tile", leaf("extent(t0.a0)")), "factor i.tile of extent(t0.a0)"),
        (
            Factor("j", ceildiv(leaf("extent(t0.a1)"), leaf("lanes(f32)") * 2), 16, 2, 6),
            "factor j of ceildiv(extent(t0.a1), lanes(f32) * 2) at_most=16 at_least=2 default=6",
        ),
        (Factor("k", (leaf("a") == 1) + 3), "factor k of (a == 1) + 3"),
        (Choice("unroll", (1, 4, 16), 4), "choice unroll of [1, 4, 16] default=4"),
        (Flag("stream.on", True), "flag stream.on default=1"),
    ],
)
def test_text(tunable: Tunable, text: str) -> None:
    assert tunable.text() == text
    again = parse_tunable(text)
    assert again.text() == text
    assert type(again) is type(tunable)


@pytest.mark.parametrize(
    "line", ["factor a of", "number a of 3", "choice a of 3 default=3", "flag a", "factor a of x()"]
)
def test_wrong_text(line: str) -> None:
    with pytest.raises(ValueError, match="not a tunable"):
        parse_tunable(line)


@pytest.mark.parametrize("name", ["", "a b", "a..b", "1a", "a-b", "a.b "])
def test_names(name: str) -> None:
    check_name("i.tile_2")
    with pytest.raises(TemplateError, match="cannot name a tunable") as caught:
        check_name(name)
    assert "i.tile" in caught.value.expected
