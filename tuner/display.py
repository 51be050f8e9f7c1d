"""A program as a task keeps it for people: in their own names, below a line that says what they know it by."""

from __future__ import annotations

from pathlib import Path

from ..tensor.printing import print_program
from ..tensor.program import Program


def display_text(program: Program) -> str:
    """The program's text, below `# layer.tensor` or `# matmul`, where its stages come from such a file or operator."""
    origins = [stage.origin for stage in program.stages]
    names = dict.fromkeys(
        Path(origin.file).name if origin.file.endswith(".tensor") else origin.operator for origin in origins
    )
    label = " ".join(" ".join(names).split())
    return f"# {label}\n{print_program(program)}" if label else print_program(program)


def display_label(display: str) -> str:
    """Returns what stands in that line; empty where there is none."""
    first = display.partition("\n")[0]
    return first.removeprefix("# ") if first.startswith("# ") else ""
