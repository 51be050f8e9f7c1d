"""The search benchmark: pieces that go on where they were cut, shares of the best known, tables and plots."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import search
import searching.apart
import searching.contest
import searching.plots
import searching.quality
import searching.rank
from searching.pieces import Piece, contests, searches, work
from searching.runs import Found, Plan, best_after, led, run
from searching.store import Store, instructions
from searching.tasks import CLOCK, FEW, TASKS, donors

from tilesmith.measure.compare import noise as machine

TASK = "matmul 512x512x512"


def found(task: str = TASK, label: str = "guided", seed: int = 0, **more: Any) -> dict[str, Any]:
    curve = [[1, 0.5, 8.0], [10, 1.0, 2.0], [100, 9.0, 1.0]]
    return {
        "task": task, "label": label, "seed": seed, "trials": 128, "curve": curve, "drafted": [24, 0],
        "spent": {"wall": 12.8, "search": 2.0}, "winner": {"sketch": "", "config": {}, "seconds": 1.0}, **more,
    }  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs.jsonl", "now")


def test_a_version_of_the_code_is_what_it_does_and_not_how_it_is_explained() -> None:
    text = '''"""Head,

of two lines."""

def f(x: int) -> str:
    """Doc."""
    # why
    return "# no comment"  # how
'''
    bare = 'def f(x: int) -> str:\n    return "# no comment"'
    assert instructions(text) == instructions(bare)
    assert instructions('def f(x: int) -> str:\n    return (\n        "# no comment"\n    )') == instructions(bare)
    assert instructions(bare.replace("no", "a")) != instructions(bare)


def test_there_are_twelve_tasks_and_one_more_and_the_named_ones_are_among_them() -> None:
    assert len(TASKS) == 13 and set(CLOCK) | set(FEW) <= set(TASKS)


@pytest.mark.parametrize("name", list(TASKS))
def test_donors_are_other_shapes_of_the_same_family(name: str) -> None:
    from tilesmith.tensor.text.canonical import family_key, program_key

    programs = [row.program() for row in (TASKS[name], *donors(TASKS[name]))]
    assert len({family_key(program) for program in programs}) == 1
    assert len({program_key(program) for program in programs}) == 3


def test_work_stops_at_what_was_cut_and_goes_on_with_what_fits(store: Store) -> None:
    ends = {"a": [None, {"n": 1}], "b": [{"n": 2}], "long": []}

    def pieces() -> list[Piece]:
        names = [name for name in ("long", "a", "b") if store.get("m", name) is None]
        return [Piece("m", n, 1e6 if n == "long" else 0.0, lambda _, n=n: ends[n].pop(0)) for n in names]

    said: list[str] = []
    work(store, pieces, 0.1, said.append)
    assert "cut" in said[0] and len(said) == 1 and store.get("m", "a") is None
    work(store, pieces, 0.1, said.append)
    assert store.get("m", "a") == {"n": 1} and store.get("m", "b") == {"n": 2}
    assert Store(store.path, "now").get("m", "b") == {"n": 2}
    assert Store(store.path, "later").get("m", "b") is None
    assert Store(store.path, "later", any_code=True).get("m", "b") == {"n": 2}


def test_what_another_machine_found_is_not_looked_at(tmp_path: Path) -> None:
    here, there = (Store(tmp_path / "runs.jsonl", "now", machine=machine) for machine in ("this", "that"))
    there.put("run", "a", {"n": 1})
    here.put("run", "b", {"n": 2})
    for name, key in (("that", "a"), ("this", "b")):
        again = Store(tmp_path / "runs.jsonl", "later", machine=name)
        assert [found for found, _ in again.earlier("run")] == [f"{key}|now"]


def test_runs_and_contests_are_missing_until_they_are_there(store: Store) -> None:
    plan = Plan(TASK, "guided", 0, 128)
    assert [piece.key for piece in searches(store, [plan])] == [plan.key]
    assert not list(contests(store))
    store.put("run", plan.key, found())
    assert not list(searches(store, [plan]))
    assert [piece.key for piece in contests(store)] == [TASK]
    store.put("contest", TASK, {"of": [plan.key], "seconds": {plan.key: 1.0}})
    assert [piece.key for piece in contests(store)] == [TASK], (
        "an older one, which took the luckiest for the best known"
    )
    store.put("contest", TASK, {"of": [plan.key], "seconds": {plan.key: 1.0}, "known": 1.0})
    assert not list(contests(store))
    store.put("run", Plan(TASK, "guided", 1, 128).key, found(seed=1))
    assert [piece.key for piece in contests(store)] == [TASK]


def test_all_measures_come_before_the_comparison_of_what_they_found(store: Store) -> None:
    store.put("run", Plan(TASK, "guided", 0, 128).key, found())
    pieces = list(search.all_pieces(store))
    assert {piece.measure for piece in pieces} == {"run", "clock", "rank"}
    assert len({(piece.measure, piece.key) for piece in pieces}) == len(pieces)
    for piece in pieces:
        store.put(piece.measure, piece.key, found(task=piece.key.partition("|")[0]))
    assert [(piece.measure, piece.key) for piece in search.all_pieces(store)] == [("contest", task) for task in TASKS]


def test_shares_are_of_the_best_known_and_end_where_the_winner_stood(store: Store) -> None:
    ours, rival = Plan(TASK, "guided", 0, 128).key, Plan(TASK, "random", 0, 128).key
    store.put("run", ours, found())
    store.put("run", rival, found(label="random", winner={"sketch": "", "config": {"x": 1}, "seconds": 0.9}))
    store.put("contest", TASK, {"of": [ours, rival], "seconds": {"analytic": 2.0, ours: 1.1, rival: 1.0}})
    shares = searching.quality.Shares(store)
    assert shares.of(TASK, "guided", 128, 128) == [pytest.approx(1.0 / 1.1)]
    assert shares.of(TASK, "guided", 128, 16) == [pytest.approx(1.0 / 2.2)]  # the whole curve is stretched
    assert searching.quality.zero_share(shares, TASK) == pytest.approx(0.55)
    assert best_after(found(), 9) == 8.0


def test_what_led_after_some_trials_is_measured_too(store: Store) -> None:
    ours = Plan(TASK, "guided", 0, 128).key
    leaders = {"marks": {"16": [(0, {"x": 1})], "32": [(1, {"x": 2}), (0, {"x": 1})]}, "sketches": ["s", "t"]}
    store.put("run", ours, found(leaders=leaders))
    assert led(found(leaders=leaders)) == {16: [("s", {"x": 1})], 32: [("t", {"x": 2}), ("s", {"x": 1})]}
    store.put("contest", TASK, {"of": [ours], "seconds": {ours: 1.0, f"{ours}@16": 1.25, f"{ours}@32": 1.6}})
    shares = searching.quality.Shares(store)
    marks = (9, 16, 32, 64, 128)  # as recorded 8, 2, 2, 2, 1
    assert [shares.of(TASK, "guided", 128, mark)[0] for mark in marks] == pytest.approx([0.2, 0.8, 0.625, 0.5, 1.0])


def test_a_contest_chooses_at_a_mark_as_a_confirmation_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one process, and what is chosen counts with the others: the luck of the first is no part of it."""
    taken = {1: [0.9, 1.2, 1.4], 2: [1.0, 1.0, 1.1], 3: [0.8, 0.8, 0.9], 4: [2.0, 2.0, 2.0]}

    def measured(task: object, target: str, entries: list[str]) -> dict[str, list[float]]:
        return {entry: taken[json.loads(entry)[1].get("x", 4)] for entry in entries}

    monkeypatch.setattr(searching.contest, "measured", measured)
    leaders = {"marks": {"16": [(0, {"x": 2}), (0, {"x": 1})]}, "sketches": ["s"]}
    winner = {"sketch": "s", "config": {"x": 3}, "seconds": 1.0}
    held = searching.contest.contest(TASK, {"a": found(leaders=leaders, winner=winner)}, {})
    seconds = held["seconds"]
    assert seconds["a@16"] == pytest.approx(1.3) and seconds["a"] == 0.8 and seconds["analytic"] == 2.0
    assert held["known"] == 0.8, "kernel 3 takes 0.8, 0.8 and, but for the third process, 0.9"


def test_the_best_known_is_not_the_luckiest(store: Store) -> None:
    """A hundred kernels that are all alike, on a machine that is noisy: none is faster than the others."""
    rng = np.random.default_rng(0)
    times = rng.normal(1.0, 0.01, (100, 3)).tolist()
    assert searching.contest._best([*times, [0.5, float("inf"), 0.5]]) == pytest.approx(1.0, abs=0.01)
    store.put("contest", TASK, {"of": [], "seconds": {"analytic": 0.9}, "known": 1.0})
    assert searching.quality.Shares(store).known(TASK) == 1.0


def test_long_runs_of_older_code_count_for_the_best_known(tmp_path: Path) -> None:
    plan = Plan(TASK, "random", 100, searching.contest.LONG)
    Store(tmp_path / "runs.jsonl", "before").put("run", plan.key, found(label="random", trials=searching.contest.LONG))
    left = [
        piece.key
        for piece in searching.quality.best_known(Store(tmp_path / "runs.jsonl", "now"))
        if piece.measure == "run"
    ]
    assert plan.key not in left and len(left) == 3 * len(TASKS) - 1


def test_tables_and_plots_of_what_there_is(store: Store) -> None:
    store.put("run", Plan(TASK, "guided", 0, 128).key, found())
    for key, slow in (("x", 9.0), ("x again", 2.5)):
        store.put("rank", key, {"task": TASK, "times": {"a": (1.0, 2.0), "b": (2.0, slow), "c": (3.0, None)}})
    by_label = next(iter(searching.quality.tables(store)))
    assert list(by_label.columns[1].cells) == ["1 of 13", "0", "0", ""]
    assert list(by_label.columns[3].cells)[1] == "not measured"
    assert len(next(iter(searching.rank.tables(store))).rows) == len(TASKS) + 2
    for svg in (searching.plots.curves(store), searching.plots.scatter(store)):
        shapes = ElementTree.fromstring(svg).iter()
        assert sum(shape.tag.endswith(("polyline", "circle")) for shape in shapes) >= 3


def test_runs_of_the_same_candidates_are_put_together(store: Store) -> None:
    """The fastest counts; what one of the runs does not have is left out."""
    for key, times in (
        ("x", {"a": (1.0, 2.0), "b": (2.0, 9.0), "d": (4.0, 1.0)}),
        ("y", {"b": (2.0, 3.0), "a": (1.0, 8.0)}),
    ):
        store.put("rank", key, {"task": TASK, "times": times})
    ((predicted, measured, best),) = searching.rank.timed(store).values()
    assert best == 0  # the luckiest
    store.put("front", TASK, {"seconds": {"b": 2.0, "d": 1.0, "a": 2.5}})
    assert searching.rank.timed(store)[TASK].best == 1  # of those that all runs have
    assert predicted.tolist() == [1.0, 2.0] and measured.min(axis=0).tolist() == [2.0, 3.0]
    assert searching.apart.agreement(measured) == pytest.approx(-1.0)
    assert searching.apart.agreement(measured[:1]) is None


def test_a_task_whose_runs_do_not_agree_is_shown_and_does_not_count(store: Store) -> None:
    other = next(task for task in TASKS if task != TASK)
    for task in (TASK, other):
        store.put("run", Plan(task, "guided", 0, 128).key, found() | {"task": task})
    times = {"a": 1.0, "b": 2.0, "c": 3.0}
    for key, second in ((TASK, times), (other, {"a": 3.0, "b": 2.0, "c": 1.0})):
        for number, of_run in enumerate((times, second)):
            store.put("rank", f"{key} {number}", {"task": key, "times": {n: (1.0, t) for n, t in of_run.items()}})
    assert searching.apart.told_apart(store) == [task for task in TASKS if task != other]
    by_label, by_task, *_ = searching.quality.tables(store)
    assert list(by_label.columns[1].cells) == ["1 of 12", "0", "0", "2 of 13", ""]
    assert sum("not told apart" in str(cell) for cell in by_task.columns[0].cells) == 1


def test_where_the_best_stands() -> None:
    assert searching.rank.place_of(0, np.array([3.0, 1.0, 2.0, 4.0])) == 0.5


def test_a_run_that_is_cut_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small task, searched for real: cut after the first trial, then finished."""
    import searching.runs
    from workloads import ROWS

    monkeypatch.setattr(searching.runs, "SCRATCH", tmp_path)
    monkeypatch.setattr(searching.runs, "DISTURBED", 1.0)  # by whatever else the machine does now
    row = next(row for row in ROWS if row.name == "bias_relu 32x128")
    plan = Plan(row.name, "random", 0, 6, rows={row.name: row})
    assert run(plan, time.monotonic()) is None and plan.database.exists()
    finished = run(plan, time.monotonic() + 120.0)
    assert finished is not None and finished["trials"] == 6 and finished["winner"]["seconds"] > 0
    assert finished["leaders"]["marks"] == {} and finished["curve"][-1][0] <= 6 and not plan.database.exists()


def test_tables_are_written_between_the_marks_of_a_page(tmp_path: Path) -> None:
    import search

    page = tmp_path / "page.md"
    mark = search.MARKS[0].format("this")
    page.write_text(f"before\n{mark}\nold\n{search.MARKS[1]}\nafter\n", encoding="utf-8")
    for _ in range(2):
        search.into(page, "this", "a table\n\nof two parts   \n", "1 search.")
    lines = [
        "before",
        mark,
        "1 search.",
        "",
        "    a table",
        "",
        "    of two parts",
        search.MARKS[1],
        "after",
    ]
    assert page.read_text(encoding="utf-8").splitlines() == lines


@pytest.mark.parametrize(("first", "tried"), [(0.01, 1), (0.2, 2)])
def test_a_run_that_was_disturbed_is_made_again_once(first: float, tried: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import searching.runs

    shares = iter([first, 0.3, 0.0])
    monkeypatch.setattr(searching.runs, "attempt", lambda *_: found(others=next(shares)))
    kept = run(Plan(TASK, "guided", 0, 4), 0.0)
    assert kept is not None and kept["others"] == (first if tried == 1 else 0.3)


def test_what_goes_to_others_is_not_what_this_process_and_its_children_use(monkeypatch: pytest.MonkeyPatch) -> None:
    second = os.sysconf("SC_CLK_TCK")
    ticks, used = iter([(10 * second, 50 * second), (12 * second, 52 * second)]), iter([3.0, 1.0, 3.25, 1.75])
    monkeypatch.setattr(machine, "_all_ticks", lambda: next(ticks))
    monkeypatch.setattr("resource.getrusage", lambda _: SimpleNamespace(ru_utime=next(used), ru_stime=0.0))
    assert machine.Others().share() == pytest.approx((2.0 - 1.0) / 4.0)


def test_what_was_not_measured_together_does_not_count() -> None:
    runs: dict[str, Found] = {"a": {}, "b": {}}
    assert list(searching.quality.together(runs, {"of": ["b"]})) == ["b"]
    assert searching.quality.together(runs, None) == searching.quality.together(runs, {}) == runs
