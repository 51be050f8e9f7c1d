"""Tasks: a program on a target with a number of threads is what is tuned."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ..common.errors import ArgumentError
from ..targets.target import Target
from ..tensor.program import Program
from ..tensor.rewrite import normalise
from ..tensor.text import canonical, print_program, program_key
from .auto import derive
from .schedule import Template, trace
from .sketch import UNSCHEDULED, Sketch


@dataclass(frozen=True, eq=False)
class Task:
    """What is tuned. `program` is in canonical form (`Task.of` sees to that); sketches are of its normalised form."""

    program: Program
    target: Target
    threads: int

    @staticmethod
    def of(program: object, target: Target, threads: int) -> Task:
        """The task of any program. ArgumentError for anything else, such as an operator's name."""
        if not isinstance(program, Program):
            raise ArgumentError(
                "that is no program",
                expected="a Program, as from tilesmith.parse(text) or tilesmith.ops.matmul(m=..., n=..., k=...)",
                found=repr(program)[:80],
            )
        return Task(canonical(program), target, threads)

    @cached_property
    def key(self) -> str:
        """sha256 of program key, target key and threads: 64 hexadecimal digits."""
        return task_key(program_key(self.program), self.target.key, self.threads)

    @cached_property
    def text(self) -> str:
        """The program's canonical text."""
        return print_program(self.program)

    @cached_property
    def body(self) -> Program:
        """The program as sketches see it: axes that are only used together are one axis, unit axes are gone."""
        return normalised(self.program)

    @cached_property
    def sketches(self) -> tuple[Sketch, ...]:
        """The sketches that the rules derive; the unscheduled nest comes first."""
        return derive(self.body, self.target.kind, self.target.has_matrix_unit)

    def sketches_of(self, template: Template) -> tuple[Sketch, ...]:
        """The sketches of a person's template, after the unscheduled nest. TemplateError names the template."""
        return (UNSCHEDULED, *trace(template, self.body))


def task_key(program: str, target: str, threads: int) -> str:
    """The key of a task, from the keys of its program and target."""
    return hashlib.sha256(f"{program}\n{target}\n{threads}".encode()).hexdigest()


@lru_cache(maxsize=64)
def normalised(program: Program) -> Program:
    """The canonical form of the normalised program."""
    return canonical(normalise(program))
