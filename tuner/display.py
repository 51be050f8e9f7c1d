"""A program as a task keeps it for people: in their own names, below a line that says what they know it by; and titles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..tensor.printing import print_program
from ..tensor.program import Program
from .records.claims import known_program
from .records.data import TaskIdentity


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


def short_target(text: str) -> str:
    """The target without its sizes: `x86:avx512+avx512vnni`."""
    return text.partition(";")[0]


def program_title(display: str) -> str:
    """Returns what a person knows a program by (a file, an operator), then its last stage: `matmul C[64, 64] sum[64] i8 ->
    i32`.

    `display`: as tasks are stored.
    """
    program = known_program(display)
    stage = program.stages[-1]
    sizes = ", ".join(str(axis.extent) for axis in stage.axes)
    reduced = f" {stage.combiner}[{', '.join(str(axis.extent) for axis in stage.reduction)}]" if stage.reduction else ""
    more = f" + {len(program.stages) - 1} more" if len(program.stages) > 1 else ""
    label = display_label(display)
    return f"{label}{' ' if label else ''}{stage.name}[{sizes}]{reduced}{more} {_dtypes(program)}"


def _dtypes(program: Program) -> str:
    """`f32`, or `i8, f32 -> i32` where what goes in and what comes out differ."""
    given = list(dict.fromkeys(item.tensor.dtype.name for item in program.inputs))
    made = list(dict.fromkeys(program.tensors[name].dtype.name for name in program.outputs))
    return ", ".join(made) if given in (made, []) else f"{', '.join(given)} -> {', '.join(made)}"


def config_text(config: Mapping[str, object]) -> str:
    """`i.tile=8 k.block=256`."""
    return " ".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in config.items()
    )


def task_title(task: TaskIdentity) -> str:
    """`C[1024, 1024] sum[1024] on x86:avx512, 2 threads (task 0a1b2c3d)`."""
    return f"{program_title(task.display)} on {place_text(task)} (task {task.key[:8]})"


def place_text(task: TaskIdentity) -> str:
    """Returns what a task's kernels are for: `x86:avx512, 2 threads`."""
    accuracy = "" if task.accuracy == "default" else f", {task.accuracy} accuracy"
    place = ", in a model" if task.in_model else ""
    return f"{short_target(task.target)}, {task.threads} thread{'' if task.threads == 1 else 's'}{accuracy}{place}"
