"""Strategies in a child: they say what they would say here, and nothing that happens to them is a candidate's fault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest

from tilesmith.common.errors import ArgumentError, EnvironmentFailure, ProgramError
from tilesmith.measure.process.station import wait_readable
from tilesmith.measure.result import Beside, Measurement, Status
from tilesmith.schedules.space import Candidate
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import Ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.ops import matmul
from tilesmith.tuner.effort import NORMAL
from tilesmith.tuner.search.strategy import Judged, Result, make_strategy
from tilesmith.tuner.task_space import TaskSpace
from tilesmith.tuner.thinking.place import Apart, Thinking, ThinkingApart, thinking_for
from tilesmith.tuner.thinking.thinker import Begin

CEILINGS = Ceilings({"f32": 1e11}, ((1 << 15, 1e11), (1 << 40, 1e10)), 1)


class Idle:
    """A runner without trials that its caller waits in."""

    def tend(self, beside: Beside, done: Callable[[], bool]) -> None:
        while not done():
            wait_readable(beside.descriptors)


@pytest.fixture(scope="module")
def space() -> TaskSpace:
    task = Task.of(matmul(m=40, n=48, k=56), parse_target("x86:avx2"), 1)
    return TaskSpace(task, CEILINGS)


@pytest.fixture
def apart() -> Iterator[ThinkingApart]:
    thinking = ThinkingApart(Idle())
    yield thinking
    thinking.close()


def answers(candidates: Sequence[Candidate]) -> list[Result]:
    """Times that any process would give them; one of seven fails."""

    def one(candidate: Candidate) -> Measurement:
        score = sum((n + 1) * choice for n, choice in enumerate(candidate.choices))
        return Measurement(Status.CRASH) if score % 7 == 0 else Measurement(Status.OK, (1e-3 + 1e-5 * (score % 31),))

    return [(candidate, one(candidate)) for candidate in candidates]


@pytest.mark.parametrize("name", ["guided", "evolution"])
def test_a_strategy_in_a_child_proposes_what_it_would_propose_here(
    space: TaskSpace, apart: ThinkingApart, name: str
) -> None:
    here, there = make_strategy(name, space, 3), apart.strategy(name, space, 3, NORMAL)
    for number, count in enumerate([12, 8, 8, 8]):
        asked = here.ask(count)
        assert there.ask(count) == asked
        here.tell(answers(asked))
        there.tell(answers(asked))
        if number == 0:
            there.prepare()
    there.judge()
    if isinstance(here, Judged):
        here.judge()
        assert [one.correlation for one in there.rounds] == [one.correlation for one in here.rounds]
        assert len(there.rounds) > 1
    assert there.seconds > 0.0


def test_two_tasks_think_in_one_child_and_are_not_mixed_up(space: TaskSpace, apart: ThinkingApart) -> None:
    first, second = (apart.strategy("random", space, seed, NORMAL) for seed in (1, 2))
    mixed = [(first.ask(2), second.ask(2)) for _ in range(3)]
    for number, seed in enumerate((1, 2)):
        alone = make_strategy("random", space, seed)
        assert [pair[number] for pair in mixed] == [alone.ask(2) for _ in range(3)]


def test_a_child_that_was_killed_is_an_error_of_the_machine(space: TaskSpace, apart: ThinkingApart) -> None:
    strategy = apart.strategy("random", space, 0, NORMAL)
    strategy.ask(1)
    os.kill(apart._child.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentFailure, match="thinks has ended"):
        strategy.ask(1)


def test_what_a_strategy_raises_is_shown(space: TaskSpace, apart: ThinkingApart) -> None:
    strategy = apart.strategy("random", space, 0, NORMAL)
    with pytest.raises(EnvironmentFailure, match="thinks has ended") as caught:
        strategy.ask("many")  # type: ignore[arg-type]
    assert "TypeError" in str(caught.value)


def test_an_error_of_the_person_is_raised_as_it_is(space: TaskSpace, apart: ThinkingApart) -> None:
    with pytest.raises(ArgumentError, match="unknown strategy"):
        apart.strategy("luck", space, 0, NORMAL)
    number = apart.strategy("random", space, 0, NORMAL).number
    apart.post(number, Begin("no program", "x86:avx2", 1, "default", False, (), CEILINGS, "random", 0, NORMAL, ()))
    with pytest.raises(ProgramError):
        apart._runner.tend(apart._child, apart._answered)


def test_it_thinks_here_where_the_clock_is_elsewhere(space: TaskSpace) -> None:
    class Cluster:
        """No `tend`: its hosts move their trials along by themselves."""

    with thinking_for(Cluster()) as thinking:  # type: ignore[arg-type]
        assert type(thinking) is Thinking
        assert not isinstance(thinking.strategy("random", space, 0, NORMAL), Apart)


def test_what_is_hidden_from_an_import_comes_back() -> None:
    code = (
        "from tilesmith.tuner.thinking.thinker import _without\n"
        "with _without('sklearn'): import xgboost\n"
        "import sys; assert 'sklearn' not in sys.modules\n"
        "from sklearn.tree import DecisionTreeRegressor\n"
        "with _without('sklearn'): import sklearn.tree"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
