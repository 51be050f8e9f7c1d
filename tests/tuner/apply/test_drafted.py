"""Drafts are kept: what was picked once is picked at once, until something changes on which it depends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

import tilesmith as ts
from tilesmith.measure.calibrate.calibrate import known_ceilings
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tuner.apply import drafted, first_built, tiers, together
from tilesmith.tuner.apply.tiers import AnalyticModel

HOST = parse_target("host")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILESMITH_DB", str(tmp_path / "records.sqlite"))


def task(m: int = 24) -> Task:
    return Task.of(ts.ops.matmul(m=m, n=32, k=16), HOST, 1)


def never(*given: object, **named: object) -> NoReturn:
    raise AssertionError("nothing is drafted or built again")


def test_a_draft_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = AnalyticModel(task()).picks()
    assert len(first) > 1 and AnalyticModel(task()).is_known and not AnalyticModel(task(25)).is_known
    monkeypatch.setattr(tiers, "best_choices", never)
    again = AnalyticModel(task()).picks()
    assert [(p.sketch.text, p.config, p.provenance) for p in again] == [
        (p.sketch.text, p.config, p.provenance) for p in first
    ]


def test_a_draft_holds_for_its_ceilings_code_threads_and_accuracy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    one, ceilings = task(), known_ceilings(HOST, 1)
    AnalyticModel(one).picks()
    assert drafted.is_kept(one, ceilings)
    faster = replace(ceilings, flops={name: 2 * speed for name, speed in ceilings.flops.items()})
    assert not drafted.is_kept(one, faster)
    assert not drafted.is_kept(replace(one, threads=2), ceilings)
    assert not drafted.is_kept(replace(one, accuracy="strict"), ceilings)
    monkeypatch.setattr(drafted, "code_state", lambda *packages: "of a later version")
    assert not drafted.is_kept(one, ceilings)


def test_what_is_odd_is_drafted_again() -> None:
    one, ceilings = task(), known_ceilings(HOST, 1)
    first = AnalyticModel(one).picks()
    for content in (b"", b"{}", b"[[1]]", b"[3]", b'[["x", "", {}]]', b"[["):
        drafted._files().put(drafted._key(one, ceilings), content)
        assert drafted.kept_draft(one, ceilings) is None, content
        assert [p.config for p in AnalyticModel(one).picks()] == [p.config for p in first], content


def test_a_program_of_several_kernels_is_ready_without_a_draft_a_build_or_a_helper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks = [task(m) for m in range(20, 20 + 2 * together.WORTH)]
    first = together.first_built_of(tasks, None, strict=False)
    monkeypatch.setattr(tiers, "best_choices", never)
    monkeypatch.setattr(first_built, "build", never)
    monkeypatch.setattr(together, "Child", never)
    again = together.first_built_of(tasks, None, strict=False)
    assert [artifact for _, artifact in again] == [artifact for _, artifact in first]
