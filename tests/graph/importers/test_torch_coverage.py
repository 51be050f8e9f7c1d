"""The page on models says which of torch's core operators are not covered: those, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilesmith.graph.importers.aten.registry import converters
from tilesmith.graph.importers.torch_export import WHOLE

torch = pytest.importorskip("torch")

PAGE = Path(__file__).parents[3] / "docs" / "models.md"


def core() -> set[str]:
    """Names of torch's core operators, with their overloads."""
    found = set()
    for whole in torch._C._dispatch_get_all_op_names():  # torch.ops.aten lists those alone that someone has asked for
        space, _, name = whole.partition("::")
        packet, _, overload = name.partition(".")
        if space == "aten" and hasattr(torch.ops.aten, packet):
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            if operator is not None and torch.Tag.core in operator.tags:
                found.add(str(operator).removeprefix("aten."))
    return found


def test_what_is_left_out_stands_in_the_page() -> None:
    table = PAGE.read_text().partition("### Core ATen")[2].partition("Parts of operators")[0]
    said = set(re.findall(r"`([\w.]+)`", table))
    missing = core() - set(converters())
    assert len(core()) > 150
    unsaid = {name for name in missing if name not in said and name.partition(".")[0] not in said}
    assert unsaid == set()
    assert {name for name in said if not any(name in (m, m.partition(".")[0]) for m in missing)} <= {
        "sym_numel",
        "sym_stride",
    }


def test_every_operator_that_stays_whole_has_a_function() -> None:
    assert set(WHOLE) <= set(converters())
