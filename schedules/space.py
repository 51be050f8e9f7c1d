"""Search spaces as strategies see them: named, finite domains. Nothing here knows what a loop is.

A *config space* holds the configs of one sketch (or of the only set of parameters of a replay space). A candidate is a
sketch, by its number, and for each of its parameters the position of the chosen value in the domain. A population is many
candidates of one sketch as one matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

ConfigValue = int | str | bool
Choices = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tunable with its domain at the sizes of the task.

    `ordered`: neighbouring values behave alike (a tile size), so that a local move goes one or two positions; otherwise
    (a flag, a choice between kinds) all other values are neighbours. `default` is a position.
    """

    name: str
    values: tuple[ConfigValue, ...]
    default: int = 0
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class ConfigSpace:
    """The parameters of one sketch, which `key` names; `name` is for people.

    `variants`: the options that make its structure, by name. `stages`: how many there are, which is what a look at it costs.
    """

    key: str
    name: str
    parameters: tuple[Parameter, ...]
    variants: tuple[tuple[str, ConfigValue], ...] = field(default=(), repr=False)
    stages: int = field(default=1, repr=False)

    @property
    def size(self) -> int:
        """Counts the configs, valid or not."""
        return prod(len(p.values) for p in self.parameters)

    @property
    def default(self) -> tuple[int, ...]:
        """Returns the positions of all defaults."""
        return tuple(p.default for p in self.parameters)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sketch and a config, both by positions; hashable."""

    sketch: int
    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Candidates of one sketch: `choices` is int32[n, number of parameters]."""

    sketch: int
    choices: Choices

    def __len__(self) -> int:
        return int(self.choices.shape[0])

    def candidate(self, row: int) -> Candidate:
        """Returns row number `row` as a candidate."""
        return Candidate(self.sketch, tuple(int(c) for c in self.choices[row]))


class Space(Protocol):
    """A search space as a strategy sees it: all that it may know."""

    @property
    def config_spaces(self) -> Sequence[ConfigSpace]:
        """Returns one config space a sketch, in a fixed order."""
        ...

    def valid(self, population: Population) -> NDArray[np.bool_]:
        """Tells, as bool[n], which candidates keep every `require` (batched; 100,000 at a time is usual)."""
        ...

    def prior(self, population: Population) -> NDArray[np.float64] | None:
        """Predicts seconds without any measurement, as float64[n], or returns None where nothing is known."""
        ...

    def features(self, population: Population) -> NDArray[np.float32]:
        """Returns float32[n, f] for a learned model; f is the same for all sketches."""
        ...


def config(config_space: ConfigSpace, choices: Sequence[int]) -> dict[str, ConfigValue]:
    """Returns the config of one candidate, by name."""
    return {p.name: p.values[c] for p, c in zip(config_space.parameters, choices, strict=True)}


def columns(config_space: ConfigSpace, choices: Choices) -> dict[str, NDArray[np.int64] | NDArray[np.object_]]:
    """Maps each parameter to its values for all rows: int64[n] for numbers and flags, object[n] for options."""
    out: dict[str, NDArray[np.int64] | NDArray[np.object_]] = {}
    for index, parameter in enumerate(config_space.parameters):
        numeric = not any(isinstance(v, str) for v in parameter.values)
        table = np.array(parameter.values, dtype=np.int64 if numeric else object)
        out[parameter.name] = table[choices[:, index]]
    return out
