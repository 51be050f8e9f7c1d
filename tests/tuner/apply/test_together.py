"""Candidates of many tasks come from helpers, so that this process keeps little."""

from __future__ import annotations

import pytest

from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply import together
from tilesmith.tuner.apply.first_built import first_built
from tilesmith.tuner.apply.together import first_built_of


def tasks(*sizes: int) -> list[Task]:
    return [
        Task.of(parse(f"input x: f32[{n}]\ny[i: {n}] = x[i] + 1\nreturn y"), parse_target("host"), 1) for n in sizes
    ]


def names(of: list[Task]) -> list[str]:
    return [artifact.name for _, artifact in first_built_of(of, ":memory:", strict=False)]


def here(monkeypatch: pytest.MonkeyPatch, cores: int) -> list[Task]:
    """The tasks that this process picks itself, from now on, beside as many helpers as it may have."""
    found: list[Task] = []

    def noted(task: Task, *args: object, **kwargs: object) -> object:
        found.append(task)
        return first_built(task, ":memory:", strict=False)

    monkeypatch.setattr(together, "first_built", noted)
    monkeypatch.setattr(together, "usable_cores", lambda: cores)
    monkeypatch.setattr(together, "WORTH", 1)
    return found


def test_this_process_picks_nothing_where_helpers_keep_all_cores_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    picked = here(monkeypatch, cores=1)
    assert names(tasks(5, 6, 7)) == ["pointwise_f32_5", "pointwise_f32_6", "pointwise_f32_7"]
    assert not picked
