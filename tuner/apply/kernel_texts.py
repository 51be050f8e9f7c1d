"""The texts of a compiled candidate, made when somebody asks for one: plain data, so that kernels can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...codegen.backends.sass import sass
from ...codegen.pipeline import build
from ...codegen.rows import ArgumentRows
from ...schedules.names import with_names
from ...schedules.sketch import Sketch
from ...schedules.space import ConfigValue
from ...targets.target import Target
from ...tensor.printing import print_program
from ...tensor.program import Program
from ...tensor.text.canonical import canonical


@dataclass(frozen=True, slots=True)
class KernelTexts:
    """A candidate, and the program as the person wrote it. `rows`: as it was built with."""

    program: Program
    sketch: Sketch
    config: Mapping[str, ConfigValue]
    target: Target
    threads: int
    rows: ArgumentRows = ()

    def __call__(self, stage: str) -> str:
        """The text of a stage of those of `runtime.kernel.text_stages`."""
        if stage == "program":
            return print_program(self.program)
        if stage == "sketch":
            return self.sketch.text
        program = canonical(self.program)
        texts = build(program, self.sketch, self.config, self.target, self.threads, texts=True, rows=self.rows).texts
        if stage == "outline":
            return with_names(texts[stage], self.program, self.sketch)
        return MORE[stage](texts[self.target.emission.text], self.target) if stage in MORE else texts[stage]


def machine_code(texts: Mapping[str, str], target: Target) -> str:
    """Returns what LLVM writes for a target, of the texts of an artifact, then what tools that are installed make of it."""
    emission = target.backend.emission
    if emission is None:
        return texts["asm"]
    code = texts[emission.text]
    return "\n".join([code, *(MORE[stage](code, target) for stage in emission.more)])


def _sass(ptx: str, target: Target) -> str:
    """SASS, or a line that says what is missing to show it."""
    return sass(ptx, target.cpu) or "# SASS: ptxas and nvdisasm are not installed (pip install nvidia-cuda-nvdisasm)\n"


MORE = {"sass": _sass}  # texts that tools of others make of what LLVM writes, by stage
