"""Drafts are kept: what was picked once is picked at once, until something changes on which it depends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.cost_model.kept import kept_bytes
from tilesmith.measure.calibrate.calibrate import known_ceilings
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tuner.apply import drafted, first_built, tiers, together
from tilesmith.tuner.apply.pick import Pick
from tilesmith.tuner.apply.tiers import AnalyticModel
from tilesmith.tuner.effort import UNTUNED
from tilesmith.tuner.task_space import TaskSpace

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
    for content in (b"", b"{}", b"[[1]]", b"[3]", b'[["x", 1, "", {}]]', b'[[1.0, "", {}]]', b"[["):
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


def convolution(in_model: bool = False) -> Task:
    text = """
    input x: f32[18, 12, 14]
    constant w: f32[20, 18, 3, 3]
    y[i: 10, j: 12, o: 20] = sum[c: 18, r: 3, s: 3](x[c, i + r, j + s] * w[o, c, r, s])
    return y
    """
    return Task.of(ts.parse(text), HOST, 1, in_model=in_model)


def kept_of(pick: Pick) -> int:
    one = convolution()
    return kept_bytes(pick.sketch.apply(one.body, one.target, pick.config))


@pytest.mark.parametrize("price", [0.0, 1.0])
def test_among_other_kernels_what_is_kept_has_its_price(monkeypatch: pytest.MonkeyPatch, price: float) -> None:
    """With bytes that cost a second each the filter stays as it is; where they cost nothing all is as for a kernel alone."""
    monkeypatch.setattr(tiers, "keeping_seconds", lambda bytes, ceilings: price * bytes)
    alone, among = AnalyticModel(convolution()).picks(), AnalyticModel(convolution(in_model=True)).picks()
    (chosen, _), *_ = together.first_built_of([convolution(in_model=True)], None, strict=False)
    assert chosen.config == among[0].config and chosen.sketch.text == among[0].sketch.text
    if price:
        assert [kept_of(p) for p in among] == sorted(kept_of(p) for p in alone)
        assert kept_of(among[0]) < max(kept_of(p) for p in alone)
    else:
        assert [p.config for p in among] == [p.config for p in alone]


def test_a_draft_has_what_keeps_less_than_all_that_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many structures are faster: here they keep more and more, from the slowest to the fastest."""
    one = convolution()
    best = tiers.best_choices(TaskSpace(one, known_ceilings(HOST, 1)), np.random.default_rng(0), UNTUNED)
    space = TaskSpace(one, known_ceilings(HOST, 1))
    made = [(space.sketches[c.sketch], space.config(c)) for _, c in best]
    made.sort(key=lambda m: -kept_bytes(m[0].apply(one.body, one.target, m[1])))
    slower = 1.0 / (4 * len(made))
    monkeypatch.setattr(
        AnalyticModel, "_best_of", lambda self, given: [(1.0 + n * slower, *each) for n, each in enumerate(made)]
    )
    all_kept = sorted({kept_bytes(s.apply(one.body, one.target, c)) for s, c in made})
    assert min(kept_of(p) for p in AnalyticModel(one).picks() if p.sketch.steps) == all_kept[0]
    monkeypatch.setattr(tiers, "SLOWER", 0.0)
    drafted._files().path(drafted._key(one, known_ceilings(HOST, 1))).unlink()
    assert len(AnalyticModel(one).picks()) <= tiers.STRUCTURES
