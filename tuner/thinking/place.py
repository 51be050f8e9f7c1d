"""Where strategies think: in this process, or, where the clock is read on its processors, in a child that can be stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...common.errors import EnvironmentFailure, TilesmithError
from ...cost_model.learned.model import Samples
from ...measure.process.child import Child, child_setup
from ...measure.process.environment import builder_environment
from ...measure.process.worker import Answer
from ...measure.result import Runner, Tended
from ...schedules.space import Candidate
from ..effort import Effort
from ..search.rounds import Round
from ..search.strategy import Result, Strategy, check_strategy, make_strategy
from ..task_space import TaskSpace
from .thinker import HANDLER, Ask, Begin, Judge, Prepare, Request, Tell, Thought


class Thinking:
    """Makes strategies that think in this process."""

    def strategy(
        self, name: str, space: TaskSpace, seed: int, effort: Effort, known: tuple[Samples, ...] = ()
    ) -> Strategy:
        """See `make_strategy`."""
        return make_strategy(name, space, seed, effort, known)


class ThinkingApart(Thinking):
    """Makes strategies that think in a child, one for all of a search, while the runner's trials go on."""

    def __init__(self, runner: Tended) -> None:
        self._runner = runner
        self._child = Child(child_setup(HANDLER, {}), builder_environment())
        self._strategies: list[Apart] = []
        self._owed: list[int] = []  # whose orders have not been answered yet, in their order
        self._last: Any = None

    def strategy(
        self, name: str, space: TaskSpace, seed: int, effort: Effort, known: tuple[Samples, ...] = ()
    ) -> Apart:
        """A strategy whose calls are orders to the child."""
        check_strategy(name)
        task, sketches = space.task, tuple(sketch.text for sketch in space.sketches)
        made = Apart(self, len(self._strategies))
        self._strategies.append(made)
        begin = Begin(
            task.text,
            task.target.text,
            task.threads,
            task.accuracy,
            task.in_model,
            sketches,
            space.ceilings,
            name,
            seed,
            effort,
            known,
        )
        self.post(made.number, begin)
        return made

    def post(self, number: int, order: Request) -> None:
        """Gives an order whose answer nobody waits for."""
        self._owed.append(number)
        self._child.send((number, order))

    def call(self, number: int, order: Request) -> Any:
        """Gives an order and waits for its answer; trials go on, and the child is stopped while a clock is read."""
        self.post(number, order)
        self._runner.tend(self._child, self._answered)
        return self._last

    def _answered(self) -> bool:
        """Says whether all is answered. Raises EnvironmentFailure where the child is gone: it is no candidate that ended it."""
        for message in self._child.messages():
            if isinstance(message, Answer):
                self._take(message.value)
        if self._owed and self._child.ended:
            raise EnvironmentFailure(
                "the process in which the search thinks has ended",
                found=self._child.ending().message,
                advice="the same call continues the search; if it ends again, please report it",
            )
        return not self._owed

    def _take(self, thought: Thought) -> None:
        strategy = self._strategies[self._owed.pop(0)]
        strategy.rounds += thought.rounds
        strategy.seconds += thought.seconds
        if isinstance(thought.value, TilesmithError):
            raise thought.value
        self._last = thought.value

    def close(self) -> None:
        """Ends the child."""
        self._child.close()


class Apart:
    """A strategy in a child (implements `Strategy`, `Judged` and `Prepared`).

    `seconds`: of processor time that it has thought, as far as the answers say.
    """

    def __init__(self, thinking: ThinkingApart, number: int) -> None:
        self._thinking, self.number = thinking, number
        self.rounds: list[Round] = []
        self.seconds = 0.0

    def ask(self, count: int) -> list[Candidate]:
        """See `Strategy.ask`."""
        found: list[Candidate] = self._thinking.call(self.number, Ask(count))
        return found

    def tell(self, results: Sequence[Result]) -> None:
        """See `Strategy.tell`; it is not waited for."""
        self._thinking.post(self.number, Tell(results))

    def prepare(self) -> None:
        """See `Prepared.prepare`; it is not waited for."""
        self._thinking.post(self.number, Prepare())

    def judge(self) -> None:
        """See `Judged.judge`."""
        self._thinking.call(self.number, Judge())


@contextmanager
def thinking_for(runner: Runner) -> Iterator[Thinking]:
    """Tells where the strategies of a search think that measures with this runner."""
    if not isinstance(runner, Tended):
        yield Thinking()
        return
    apart = ThinkingApart(runner)
    try:
        yield apart
    finally:
        apart.close()
