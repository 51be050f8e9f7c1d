"""What a search strategy is, and the memory that all of them share.

A strategy proposes candidates and is told how they ended:

    strategy = make_strategy("guided", space, seed=0)
    while batch := strategy.ask(8):
        strategy.tell([(candidate, measure(candidate)) for candidate in batch])

* `ask(n)` gives 1 to n candidates, each valid and never proposed before; an empty list means that there are no more.
* `tell` takes results in any order and number, also of candidates that were never asked for (records of an earlier
  run, results of another strategy): they count as proposed.
* `ask` may be called while results are still to come.
* The same seed and the same calls give the same proposals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...common.errors import ArgumentError
from ...common.near import did_you_mean
from ...cost_model.learned.model import Samples
from ...measure.result import Measurement
from ...schedules.space import Candidate, Population, Space
from ...schedules.space_ops import Seen
from ..effort import NORMAL, Effort
from .rounds import Round

Result = tuple[Candidate, Measurement]


class Strategy(Protocol):
    """Chooses what to measure next; see the top of this file."""

    def ask(self, count: int) -> list[Candidate]:
        """1 to `count` new candidates; empty when the space is exhausted."""
        ...

    def tell(self, results: Sequence[Result]) -> None:
        """Takes in how candidates ended."""
        ...


@runtime_checkable
class Judged(Protocol):
    """A strategy that says how good its model was: one entry for each batch, appended as the search goes on."""

    rounds: list[Round]

    def judge(self) -> None:
        """Adds what came home since the last entry: at the end of a search nothing else asks for it."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A strategy with something to do that takes long and can wait until some candidates have come home."""

    def prepare(self) -> None:
        """Does what takes long and needs no results, such as loading a library."""
        ...


@dataclass
class History:
    """Holds what was proposed and how it ended, in the order of arrival."""

    space: Space
    seen: Seen = field(init=False)
    results: list[Result] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seen = Seen(self.space)

    def propose(self, candidates: Iterable[Candidate], count: int) -> list[Candidate]:
        """The first `count` of the candidates that were not proposed before; from now on they were."""
        out: list[Candidate] = []
        source = iter(candidates)
        while len(out) < count:  # not one more is taken from an iterator than needed: it would be lost
            candidate = next(source, None)
            if candidate is None:
                break
            if self.seen.add_one(candidate):
                out.append(candidate)
        return out

    def tell(self, results: Sequence[Result]) -> None:
        """Keeps the results; their candidates count as proposed."""
        for candidate, _ in results:
            self.seen.add_one(candidate)
        self.results.extend(results)

    @property
    def seconds(self) -> NDArray[np.float64]:
        """float64[number of results]: median seconds; infinity where the trial failed."""
        return np.array([m.seconds for _, m in self.results], dtype=np.float64)

    def leaders(self, count: int) -> list[Result]:
        """The best `count` results, best first; failures never lead."""
        ranked = sorted((r for r in self.results if r[1].ok), key=lambda r: r[1].seconds)
        return ranked[:count]


def candidates(population: Population) -> list[Candidate]:
    """The rows of a population, one by one."""
    return [Candidate(population.sketch, tuple(row)) for row in population.choices.tolist()]


STRATEGIES = {
    "guided": "guided:Guided",
    "surrogate": "surrogate:Surrogate",
    "descent": "descent:Descent",
    "evolution": "evolution:Evolution",
    "annealing": "annealing:Annealing",
    "random": "random:Random",
    "grid": "grid:Grid",
}


MODEL_BASED = ("guided", "surrogate", "descent")  # the others are yardsticks
LEARNING = ("guided",)  # these can use the trials of other tasks


def check_strategy(name: str) -> None:
    """Raises ArgumentError where there is none of this name."""
    if name not in STRATEGIES:
        near = did_you_mean(name, STRATEGIES)
        raise ArgumentError(
            "unknown strategy", expected="one of " + ", ".join(STRATEGIES), found=repr(name), advice=near
        )


def make_strategy(
    name: str, space: Space, seed: int = 0, effort: Effort = NORMAL, known: Sequence[Samples] = ()
) -> Strategy:
    """The strategy of this name, its module loaded only now. `known`: trials of other tasks, for those that learn.

    Raises:
        ArgumentError: there is none of this name.
    """
    check_strategy(name)
    module, kind = STRATEGIES[name].split(":")
    options = {"known": known} if name in LEARNING else {}
    made: Strategy = getattr(import_module(f".{module}", __package__), kind)(space, seed, effort, **options)
    return made
