"""Tasks: a program on a target with a number of threads is what is tuned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..common.cached import cached_property
from ..common.errors import ArgumentError, TemplateError
from ..targets.target import Target
from ..tensor.accuracy import Accuracy
from ..tensor.printing import print_program
from ..tensor.program import Program
from ..tensor.rewrites.registry import normalise
from ..tensor.text.canonical import canonical, program_key, task_key
from .auto import derive
from .schedule import Template, trace
from .sketch import UNSCHEDULED, Sketch


@dataclass(frozen=True, eq=False)
class Task:
    """A program on a target with a number of threads: what is tuned. `program` is in canonical form (`Task.of` sees to that);
    sketches are of its normalised form. `in_model`: it is one of several kernels, whose data take its own's places in the
    caches: it is timed as it reads constants from memory, and its records are apart from those of a kernel alone."""

    program: Program
    target: Target
    threads: int
    accuracy: Accuracy = "default"
    in_model: bool = False

    @staticmethod
    def of(
        program: object, target: Target, threads: int, accuracy: Accuracy = "default", *, in_model: bool = False
    ) -> Task:
        """Makes the task of any program. ArgumentError for anything else, such as an operator's name."""
        if not isinstance(program, Program):
            raise ArgumentError(
                "that is no program",
                expected="a Program, as from tilesmith.parse(text) or tilesmith.ops.matmul(m=..., n=..., k=...)",
                found=repr(program)[:80],
                advice="models come from tilesmith.from_torch, from_onnx and load",
            )
        return Task(canonical(program), target, threads, accuracy, in_model)

    @cached_property
    def key(self) -> str:
        """Returns the sha256 of program key, target key, threads, accuracy and `in_model`: 64 hexadecimal digits."""
        return task_key(program_key(self.program), self.target.key, self.threads, self.accuracy, self.in_model)

    @cached_property
    def text(self) -> str:
        """Returns the program's canonical text."""
        return print_program(self.program)

    @cached_property
    def body(self) -> Program:
        """Returns the program as sketches see it: axes that are only used together are one axis, unit axes are gone."""
        return normalised(self.program)

    @cached_property
    def sketches(self) -> tuple[Sketch, ...]:
        """Returns the sketches that the rules derive; the unscheduled nest comes first."""
        return derive(self.body, self.target, self.accuracy)

    def sketches_of(self, template: Template) -> tuple[Sketch, ...]:
        """Returns the sketches of a person's template, after the unscheduled nest. TemplateError names the template."""
        found = trace(template, self.body, accuracy=self.accuracy, gpu=self.target.isa.gpu)
        if not found:
            raise TemplateError(
                f"template {template.__name__!r} has no sketch of {self.accuracy} accuracy",
                expected="a variant whose rewrites do sums in another order, and nothing else",
                advice="leave a rewrite out where s.allows(its name) is false",
            )
        return (UNSCHEDULED, *found)


@lru_cache(maxsize=64)
def normalised(program: Program) -> Program:
    """Returns the canonical form of the normalised program."""
    return canonical(normalise(program))
