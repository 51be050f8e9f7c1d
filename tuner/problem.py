"""What a search needs to know of what it tunes: the space, the texts that jobs and records carry, and the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ..codegen.backends.cpu import builder_version
from ..codegen.pipeline import kernel_name
from ..measure.checking.verify import is_affordable, is_sampled
from ..schedules.space import Candidate, ConfigValue, Space
from ..targets.ceilings import Ceilings
from ..tensor.program import Program
from ..tensor.text.canonical import family_key, program_key
from .display import display_text
from .records.data import Machine, StoredSketch, TaskIdentity, canonical_config
from .roofline import Work, program_work
from .task_space import TaskSpace


class NamedSpace(Space, Protocol):
    """A space whose candidates can be written down."""

    def sketch_text(self, number: int) -> str:
        """The text of a sketch; "" for the unscheduled nest."""
        ...

    def config(self, candidate: Candidate) -> Mapping[str, ConfigValue]:
        """The config of a candidate by name."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """A task, ready to be searched. `builder` is what compiles its candidates now: older records are of another one.

    `inputs`: those that a person gave (measure/given.py); the others are drawn.
    `sampled`: trials are checked at some points of their outputs only; `checkable`: the oracle can check all of them, once.
    """

    title: str
    identity: TaskIdentity
    space: NamedSpace
    machine: Machine
    builder: str
    ceilings: Ceilings
    work: Work
    sampled: bool = False
    checkable: bool = True
    inputs: bytes = b""

    @property
    def floor(self) -> float:
        """Seconds that no kernel can beat on this machine."""
        return self.work.least_seconds(self.ceilings)

    def sketch(self, number: int) -> StoredSketch:
        """A sketch as stored. The unscheduled nest has no text and no key."""
        text = self.space.sketch_text(number)
        return StoredSketch(self.space.config_spaces[number].key if text else "", text)

    def names(self, candidate: Candidate) -> tuple[str, str]:
        """The sketch's key and the canonical config: what a candidate is in the database."""
        return self.sketch(candidate.sketch).key, canonical_config(self.space.config(candidate))

    def candidate(self, sketch: str, config: Mapping[str, ConfigValue]) -> Candidate | None:
        """The candidate of a record, if today's space has it: domains change from version to version."""
        for index, config_space in enumerate(self.space.config_spaces):
            if self.sketch(index).key == sketch and config.keys() == {p.name for p in config_space.parameters}:
                values = [config[p.name] for p in config_space.parameters]
                if all(v in p.values for v, p in zip(values, config_space.parameters, strict=True)):
                    positions = (p.values.index(v) for v, p in zip(values, config_space.parameters, strict=True))
                    return Candidate(index, tuple(positions))
        return None

    def unscheduled(self) -> Candidate | None:
        """Candidate 0: the nest as it is written, if the space has it."""
        for index, config_space in enumerate(self.space.config_spaces):
            if not self.space.sketch_text(index) and not config_space.parameters:
                return Candidate(index, ())
        return None


def problem_of(program: Program, space: TaskSpace, machine: Machine, inputs: bytes = b"") -> Problem:
    """The problem of a program on a machine."""
    task, ceilings = space.task, space.ceilings
    identity = TaskIdentity(
        program_key=program_key(task.program),
        family_key=family_key(task.program),
        program=task.text,
        display=display_text(program),
        target_key=task.target.key,
        target=task.target.text,
        threads=task.threads,
        accuracy=task.accuracy,
        in_model=task.in_model,
    )
    return Problem(
        kernel_name(program), identity, space, machine, builder_version(), ceilings, program_work(program),
        is_sampled(program), is_affordable(program), inputs,
    )  # fmt: skip
