"""Where the time of compiling one candidate goes: the parts of the way, and each of LLVM's passes."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ..schedules.sketch import Sketch
from ..schedules.space import ConfigValue
from ..targets.target import Target
from ..tensor.program import Program
from .pipeline import assembled, kernel_name, loop_ir, loop_tree

# "   0.0016 ( 35.3%)   0.0010 ( 12.3%)   0.0026 ( 20.1%)   0.0026 ( 20.4%)  X86 DAG->DAG Instruction Selection"
_LINE = re.compile(r"([\d.]+) +\( *[\d.]+%\)  (\S.*)$")
_REPEATED = re.compile(r" #\d+$")


@dataclass(frozen=True, slots=True)
class CompileTime:
    """Seconds of the parts in their order, and of LLVM's passes (analyses among them), the longest first."""

    parts: Mapping[str, float]
    passes: Mapping[str, float]

    @property
    def total(self) -> float:
        """Adds up the seconds of all parts."""
        return sum(self.parts.values())


def compile_time(
    program: Program, sketch: Sketch, config: Mapping[str, ConfigValue], target: Target, threads: int, times: int = 5
) -> CompileTime:
    """Compiles a candidate `times` times after a first one, which pays for what is loaded once; means.

    Errors as of `pipeline.build`. LLVM can end the process on code it cannot select: for candidates known to compile.
    """
    import llvmlite.binding as llvm

    def once() -> dict[str, float]:
        started = time.perf_counter()
        tree = loop_tree(program, sketch, config, target)
        applied = time.perf_counter()
        loops = loop_ir(tree, target, threads, kernel_name(program))
        lowered = time.perf_counter()
        artifact = assembled(loops, target, threads)
        return {"apply": applied - started, "lower": lowered - applied, **artifact.seconds}

    once()
    found = [once() for _ in range(times)]
    parts = {name: sum(seconds[name] for seconds in found) / times for name in found[0]}
    llvm.set_time_passes(True)
    try:
        once()
        report = llvm.report_and_reset_timings()
    finally:
        llvm.set_time_passes(False)
    return CompileTime(parts, read_report(report))


def read_report(text: str) -> dict[str, float]:
    """Name -> wall seconds from LLVM's report, runs of one pass added up, the longest first."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = _LINE.search(line)
        if match and match[2] != "Total":
            name = _REPEATED.sub("", match[2].strip())
            found[name] = found.get(name, 0.0) + float(match[1])
    return dict(sorted(found.items(), key=lambda item: -item[1]))
