"""The seconds of compiling: every part of the way, and LLVM's own report read."""

from __future__ import annotations

import pytest

from tilesmith.codegen.compile_time import compile_time, read_report
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

REPORT = """
   ---User Time---   --System Time--   --User+System--   ---Wall Time---  --- Name ---
   0.0016 ( 35.3%)   0.0010 ( 12.3%)   0.0026 ( 20.1%)   0.0026 ( 20.4%)  X86 DAG->DAG Instruction Selection
   0.0000 (  0.5%)   0.0003 (  4.1%)   0.0004 (  2.8%)   0.0004 (  2.9%)  Dominator Tree Construction #2
   0.0001 (  0.5%)   0.0003 (  4.1%)   0.0004 (  2.8%)   0.0030 (  2.9%)  Dominator Tree Construction
   0.0045 (100.0%)   0.0085 (100.0%)   0.0130 (100.0%)   0.0130 (100.0%)  Total
"""


def test_a_report_is_read_and_sorted() -> None:
    found = read_report(REPORT)
    assert list(found) == ["Dominator Tree Construction", "X86 DAG->DAG Instruction Selection"]
    assert list(found.values()) == pytest.approx([0.0034, 0.0026])


@pytest.mark.usefixtures("compiles_again")
def test_parts_and_passes_of_a_candidate() -> None:
    program = canonical(parse("input x: f32[64]\ny[i: 64] = exp(x[i])\nreturn y\n"))
    found = compile_time(program, UNSCHEDULED, {}, parse_target("host"), 1, times=1)
    assert list(found.parts) == ["apply", "lower", "emit", "parse", "optimize", "code"]
    assert all(seconds > 0 for seconds in found.parts.values()) and found.total < 10
    assert "InstCombinePass" in found.passes and any("Instruction Selection" in name for name in found.passes)
    assert list(found.passes.values()) == sorted(found.passes.values(), reverse=True)
