"""The default search: by a prior and a learned model where the space has a prior, else by models of raw parameters."""

from __future__ import annotations

from collections.abc import Sequence

from ...cost_model.learned.model import Samples
from ...schedules.space import Candidate, Space
from ...schedules.space_ops import population
from ..effort import NORMAL, Effort
from .prior_guided import PriorGuided
from .rounds import Round
from .strategy import Result, Strategy
from .surrogate import Surrogate


def has_prior(space: Space) -> bool:
    """Says whether the space can tell anything without measurements."""
    config_space = space.config_spaces[0]
    return space.prior(population(0, [Candidate(0, config_space.default)], len(config_space.parameters))) is not None


class Guided:
    """See `prior_guided.py` and `surrogate.py`. Whatever it is told, also of earlier runs, trains the model.

    `known`: trials of other tasks, described as `pool.described` does for this space; none of them is task 0.
    `rounds`: what the model said of each batch, against what was measured; grows as the search goes on.
    """

    def __init__(self, space: Space, seed: int = 0, effort: Effort = NORMAL, known: Sequence[Samples] = ()) -> None:
        guided = PriorGuided(space, seed, effort, known) if has_prior(space) else None
        self._inner: Strategy = guided or Surrogate(space, seed, effort)
        self.rounds: list[Round] = guided.rounds if guided else []

    def ask(self, count: int) -> list[Candidate]:
        """The next candidates of the plan."""
        return self._inner.ask(count)

    def tell(self, results: Sequence[Result]) -> None:
        """Trains on the results at the next plan."""
        self._inner.tell(results)

    def judge(self) -> None:
        """Adds to `rounds` what came home since the last plan."""
        if isinstance(self._inner, PriorGuided):
            self._inner.judge()

    def prepare(self) -> None:
        """Loads what the second plan needs."""
        if isinstance(self._inner, PriorGuided):
            self._inner.prepare()
