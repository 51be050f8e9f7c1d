"""PTX of three kernels, kept. What changes code for GPUs shows here, to be looked at before it is kept again:

    python -m pytest tests/whole/gpu/test_golden.py --keep-golden

Registers, labels and version lines are made equal first, so that what is compared is which instructions there are, in order.
"""

from __future__ import annotations

import re
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from helpers.gpu.trees import Template, matmul, pointwise, rows_by_warps
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.schedule import trace
from tilesmith.schedules.task import normalised
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

FOLDER = Path(__file__).parent / "golden"
LLVM = 22  # the version that made the texts: another may choose other instructions
KERNELS: dict[str, tuple[Program, Template]] = {
    "pointwise": (ops.multiply_add(size=4096), pointwise),
    "rows": (ops.row_sum(256, 1024), rows_by_warps),
    "matmul": (ops.matmul(256, 256, 64), matmul(stages=3, swizzle=1)),
}


def normal(ptx: str) -> str:
    """PTX without comments and declarations, its registers and labels in the order of their first use."""
    names: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        kind = match[1]
        return names.setdefault(match[0], f"{kind}{sum(name.startswith(kind) for name in names.values())}")

    lines = []
    for line in ptx.splitlines():
        text = re.sub(r"\s+", " ", line.split("//")[0]).strip()
        if text and not text.startswith((".version", ".target", ".address_size", ".reg")):
            lines.append(re.sub(r"(%[a-z]+|\$L__BB)[\d_]+\b", renamed, text))
    return "\n".join(lines) + "\n"


@pytest.mark.skipif(llvm.llvm_version_info[0] != LLVM, reason=f"the texts are of LLVM {LLVM}")
@pytest.mark.parametrize("name", KERNELS)
def test_ptx_is_what_it_was(name: str, request: pytest.FixtureRequest) -> None:
    program, template = KERNELS[name]
    program = normalised(program)
    sketch = trace(template, program)[0]
    found = normal(build(program, sketch, {}, parse_target("cuda:sm_80"), 1).code.decode())
    kept = FOLDER / f"{name}.ptx"
    if request.config.getoption("--keep-golden"):
        kept.write_text(found)
    assert found == kept.read_text(), f"look at the difference; to keep it: pytest {Path(__file__).name} --keep-golden"


def test_what_does_not_matter_is_made_equal() -> None:
    one = ".version 8.0\n.reg .b32 %r<3>;\nadd.s32 \t%r1, %r2, 4; // sum\n$L__BB0_1:\n"
    other = ".version 8.4\nadd.s32 %r7, %r12, 4;\n$L__BB3_11:\n"
    assert normal(one) == normal(other)
    assert normal(one) != normal(other.replace("4;", "5;"))
