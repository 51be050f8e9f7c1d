"""Which sums stand in for what is no ordinary number, and which are sums like any other."""

from __future__ import annotations

import pytest

from tilesmith.tensor.exceptional import exceptional_condition
from tilesmith.tensor.printing import print_expr
from tilesmith.tensor.text.parse import parse

INPUTS = "input p: f32[4]\ninput x: f32[4, 8]\ninput q: f32[8]\ninput r: f32[4]\n"


@pytest.mark.parametrize(
    ("reduction", "condition"),
    [
        ("sum[k: 8](select(not abs(p[i]) < 1e30, x[i, k], 0))", "not abs(p[i]) < 1e+30"),
        ("prod[k: 8](select(not abs(p[i]) < 1e30, x[i, k], 1))", "not abs(p[i]) < 1e+30"),
        (
            "sum[k: 8](select(not (abs(p[i]) < 1e30 and abs(r[i]) < 1e30), x[i, k], 0))",
            "not (abs(p[i]) < 1e+30 and abs(r[i]) < 1e+30)",
        ),
        ("sum[k: 8](select(not (abs(p[i]) < 1e30 and r[i] < 1e30), x[i, k], 0))", None),
        ("sum[k: 8](select(not abs(p[i]) < 1e30, x[i, k], 1))", None),  # terms where the condition does not hold
        ("max[k: 8](select(not abs(p[i]) < 1e30, x[i, k], 0))", None),
        ("sum[k: 8](select(not abs(q[k]) < 1e30, x[i, k], 0))", None),  # another condition for each term
        ("sum[k: 8](select(abs(p[i]) < 1e30, x[i, k], 0))", None),  # holds for ordinary numbers
        ("sum[k: 8](select(not abs(p[i]) < 1, x[i, k], 0))", None),
        ("sum[k: 8](select(p[i] < 1, x[i, k], 0))", None),  # a mask
        ("sum[k: 8](select(i < 3, x[i, k], 0))", None),
        ("sum[k: 8](x[i, k])", None),
        ("select(not abs(p[i]) < 1e30, p[i], 0)", None),
    ],
)
def test_which_sums_stand_in(reduction: str, condition: str | None) -> None:
    found = exceptional_condition(parse(f"{INPUTS}y[i: 4] = {reduction}\nreturn y").stages[0])
    assert (None if found is None else print_expr(found)) == condition
