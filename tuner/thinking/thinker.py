"""The child that thinks for a search: strategies of its tasks, each with a space of its own, asked by number.

It is stopped while a clock is read (`measure.result.Tended`), as builders are. So a strategy may think as long as it likes, in
whatever libraries: trials go on, and none is disturbed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import process_time
from typing import Any

from ...common.errors import TilesmithError
from ...cost_model.learned.model import Samples
from ...measure.process.worker import Link
from ...schedules.sketch import parse_sketch
from ...schedules.task import Task
from ...targets.ceilings import Ceilings
from ...targets.target import parse_target
from ...tensor.accuracy import Accuracy
from ...tensor.text.parse import parse
from ..effort import Effort
from ..search.rounds import Round
from ..search.strategy import Judged, Prepared, Result, Strategy, make_strategy
from ..task_space import TaskSpace

HANDLER = f"{__name__}:Thinker"


@dataclass(frozen=True, slots=True)
class Begin:
    """A further task of the search, and who chooses its candidates: texts and numbers, as a record has them."""

    program: str
    target: str
    threads: int
    accuracy: Accuracy
    in_model: bool
    sketches: tuple[str, ...]
    ceilings: Ceilings
    strategy: str
    seed: int
    effort: Effort
    known: tuple[Samples, ...]

    def made(self) -> Strategy:
        """Returns the strategy, in its space."""
        task = Task(parse(self.program), parse_target(self.target), self.threads, self.accuracy, self.in_model)
        sketches = tuple(map(parse_sketch, self.sketches))
        space = TaskSpace(task, self.ceilings, sketches, ragged=self.effort.parts.ragged)
        return make_strategy(self.strategy, space, self.seed, self.effort, self.known)


@dataclass(frozen=True, slots=True)
class Ask:
    """See `Strategy.ask`; it is what the answer says."""

    count: int


@dataclass(frozen=True, slots=True)
class Tell:
    """See `Strategy.tell`."""

    results: Sequence[Result]


@dataclass(frozen=True, slots=True)
class Prepare:
    """See `Prepared.prepare`."""


@dataclass(frozen=True, slots=True)
class Judge:
    """See `Judged.judge`."""


Request = Begin | Ask | Tell | Prepare | Judge


@dataclass(frozen=True, slots=True)
class Thought:
    """Holds what came of an order: the candidates that were asked for, or an error; the rounds that are new, and the seconds
    that it took."""

    value: Any
    rounds: tuple[Round, ...]
    seconds: float


class Thinker:
    """The handler of the child (`measure/process/worker.py`)."""

    def __init__(self) -> None:
        self._strategies: dict[int, Strategy] = {}
        self._said: dict[int, int] = {}  # rounds of each that the parent has

    def handle(self, request: tuple[int, Request], link: Link) -> Thought:
        """Does what is ordered of the strategy of this number. Seconds are those of the processor: it may have been stopped."""
        number, order = request
        start = process_time()
        try:
            value = self._done(number, order)
        except TilesmithError as error:  # is the parent's to raise; anything else ends the child, and is shown
            value = error
        return Thought(value, self._new_rounds(number), process_time() - start)

    def _done(self, number: int, order: Request) -> Any:
        if isinstance(order, Begin):
            self._strategies[number] = order.made()
            return None
        strategy = self._strategies[number]
        match order:
            case Ask(count=count):
                return strategy.ask(count)
            case Tell(results=results):
                strategy.tell(results)
            case Prepare() if isinstance(strategy, Prepared):
                with _without("sklearn"):  # whose classes XGBoost wraps: nine tenths of its import, for nobody here
                    strategy.prepare()
            case Judge() if isinstance(strategy, Judged):
                strategy.judge()
        return None

    def _new_rounds(self, number: int) -> tuple[Round, ...]:
        strategy = self._strategies.get(number)
        if strategy is None or not isinstance(strategy, Judged):
            return ()
        before = self._said.get(number, 0)
        self._said[number] = len(strategy.rounds)
        return tuple(strategy.rounds[before:])


@contextmanager
def _without(package: str) -> Iterator[None]:
    """Lets imports go as if a package were not installed, unless it is imported already; this process is nobody else's."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]
