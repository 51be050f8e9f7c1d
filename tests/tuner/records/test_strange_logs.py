"""A log is data: whatever a line says, it costs that line alone, in bounded time, and nothing of it is believed untested."""

from __future__ import annotations

import json
import random
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import tilesmith
from helpers.mutated_lines import PROGRAMS, mutated, sound_lines
from tilesmith.common.errors import ScheduleError
from tilesmith.measure.machine import machine_identity, machine_key
from tilesmith.measure.result import Status
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import Ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply.pick import Pick
from tilesmith.tuner.apply.tiers import AnalyticModel
from tilesmith.tuner.records import sources
from tilesmith.tuner.records.data import Machine
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.log import import_log

lines = lru_cache(maxsize=1)(sound_lines)
AT_MOST = 60.0  # seconds for one line, on a machine that has other things to do


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(cache))


def line(**changes: Any) -> dict[str, Any]:
    return {**lines()[0], **changes}


def with_config(**changes: object) -> dict[str, Any]:
    return line(config={**lines()[0]["config"], **changes})


def written(path: Path, *rows: dict[str, Any] | bytes) -> Path:
    path.write_bytes(b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows))
    return path


Changes = dict[str, Any]  # fields of a good line that are otherwise
CONFIG: dict[str, Changes] = {
    name: {"config": {"t0.rows": value}}
    for name, value in {
        "zero": 0, "negative": -3, "a word": "abc", "2^20 rows": 2**20, "2^40 rows": 2**40, "2^70 rows": 2**70, "a float": 1.5,
        "300 rows": 300,
    }.items()
}  # fmt: skip
STRANGE: dict[str, Changes | bytes] = {
    **CONFIG,
    "unroll 2^40": {"config": {"t0.unroll": 2**40}},
    "an unknown tunable": {"config": {"q": 1}},
    "an unknown loop": {"sketch": "sketch s\nstep unroll(t9.a9)\n"},
    "a loop cut by nothing": {"sketch": "sketch s\nstep split(t0.a0, 0)\n"},
    "a division by zero": {"sketch": "sketch s\nstep split(t0.a0, extent(t0.a0) // (extent(t0.a0) - extent(t0.a0)))\n"},
    "an unknown leaf": {"sketch": "sketch s\nstep split(t0.a0, extent(t8.a1))\n"},
    "minus signs": {"sketch": f"sketch s\nstep split(t0.a0, {'-' * 200_000}4)\n"},
    "many minus signs": {"sketch": f"sketch s\nstep split(t0.a0, {'-' * 3000}4)\n"},
    "parentheses": {"sketch": f"sketch s\nstep split(t0.a0, {'(' * 1900}4{')' * 1900})\n"},
    "a long chain": {"sketch": "sketch s\nstep split(t0.a0, " + "+".join(["4"] * 1900) + ")\n"},
    "ten thousand steps": {"sketch": "sketch s\n" + "".join(f"step copy(copy{n}, x0, t0)\n" for n in range(10_000))},
    "a huge split": {"sketch": "sketch s\nstep rewrite(split_k, stage=t0, axis=a2, parts=1099511627776)\n"},
    "a huge pad": {"sketch": "sketch s\nstep rewrite(pad_axis, stage=t0, axis=a0, multiple=1099511627776)\n"},
    "a nested variant": {"sketch": "sketch s\nvariant v = " + "[" * 5000 + "\n"},
    "2^70 threads": {"threads": 2**70},
    "a program without end": {"program": "(" * 3000},
    "an extent of 10^30": {"program": PROGRAMS[0].replace("24", "1" + "0" * 30)},
    "a digit too many": {"target": "x86:avx512;cores=" + "9" * 5000},
    "a time of nothing": {"times": [0.0]},
    "a negative time": {"times": [-1.0]},
    "an endless time": b'{"times": [Infinity]}',
    "no time at all": b'{"times": [NaN]}',
    "half a character": b'{"program": "\\ud800"}',
    "brackets": b"[" * 100_000,
}

WITH_CONFIG = {*CONFIG, "unroll 2^40"}  # the other numbers of the config stay


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_line_costs_itself_alone(tmp_path: Path, name: str) -> None:
    """`compile` from a log in which it stands in front of a good line of another program, and of a slower one of this."""
    strange = STRANGE[name]
    if isinstance(strange, dict):
        changed = with_config(**strange["config"]) if name in WITH_CONFIG else line(**strange)
        strange = {**changed, "times": changed["times"] if "time" in name else [1e-5]}
    log = written(tmp_path / "x.jsonl", strange, lines()[0], lines()[4])
    started = time.perf_counter()
    kernels = [tilesmith.compile(parse(PROGRAMS[number]), db=log, threads=1) for number in (0, 2)]
    assert time.perf_counter() - started < AT_MOST
    assert [kernel.provenance.tier for kernel in kernels] == ["exact", "exact"]
    assert kernels[1].provenance.config == lines()[4]["config"]
    if name != "300 rows":  # a large tile, and a legal one
        assert kernels[0].provenance.config == lines()[0]["config"], "the slower, good line of this program serves"


def test_a_good_line_of_a_domain_of_another_version_still_serves(tmp_path: Path) -> None:
    config = {**lines()[0]["config"], "t0.rows": 17}  # today's domain ends at 16
    requires = [row for row in lines()[0]["sketch"].splitlines() if not row.startswith("require")]
    log = written(tmp_path / "x.jsonl", line(config=config, sketch="\n".join(requires) + "\n"))
    assert tilesmith.compile(parse(PROGRAMS[0]), db=log, threads=1).provenance.config == config


@pytest.mark.parametrize("claim", ["", '{"flops": {"f32": 1e300}, "bandwidth": [[1, 1e300]], "threads": 1}', "junk"])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("machine", ["another processor", machine_identity()])
def test_a_time_beyond_the_ceiling_is_kept_and_never_leads(
    tmp_path: Path, claim: str, number: int, machine: str
) -> None:
    good = {**lines()[2 * number], "machine": {"identity": machine, "ceilings": claim}}
    log = written(tmp_path / "x.jsonl", {**good, "times": [1e-12], "sketch": "", "config": {}}, good)
    with Database(tmp_path / "x.db") as database:
        assert import_log(log, database).new == 2
        (task,) = database.tasks()
        ends = [record.trial.measurement.status for record in database.records(task.key)]
        assert ends == [Status.UNSTABLE, Status.OK]
        assert len(database.best(task.key, 8)) == 1
    assert tilesmith.compile(parse(PROGRAMS[number]), db=log, threads=1).provenance.config == good["config"]


def test_a_log_does_not_say_what_a_machine_that_is_known_can_do(tmp_path: Path) -> None:
    forged = '{"flops": {"f32": 1.0}, "bandwidth": [[1, 1.0]], "threads": 1}'
    known = Ceilings({"f32": 1e12}, ((1024, 1e12),), 1).to_json()
    with Database(tmp_path / "x.db") as database:
        for number, ceilings in enumerate((known, forged)):
            machine = {"identity": "a processor", "ceilings": ceilings}
            import_log(written(tmp_path / "x.jsonl", line(machine=machine, created=float(number))), database)
        found = database.machine(machine_key("a processor"))
        assert found is not None
        assert found.ceilings == known


def test_what_is_no_record_in_a_database_is_passed_over(tmp_path: Path) -> None:
    log = written(tmp_path / "x.jsonl", *lines()[:2])
    rows = {"times": ["[NaN]", "[-1]", "[[1]]", "[" * 9999], "config": ["[]", "junk", '{"a": [1]}'],
            "status": ["fine"], "purpose": ["why"], "created": ["soon"]}  # fmt: skip
    for column, values in rows.items():
        for value in values:
            path = tmp_path / "x.db"
            path.unlink(missing_ok=True)
            with Database(path) as database:
                import_log(log, database)
                database._connection.execute(f"UPDATE record SET {column} = ? WHERE sketch = ''", (value,))
                (task,) = database.tasks()
                assert len(database.records(task.key)) == 1, (column, value)
            assert tilesmith.compile(parse(PROGRAMS[0]), db=path, threads=1).provenance.tier == "exact"


def test_numbers_of_a_config_are_looked_at_before_anything_is_built() -> None:
    pick = lines()[0]
    sketch = parse_sketch("\n".join(r for r in pick["sketch"].splitlines() if not r.startswith("require")))
    task = Task.of(parse(PROGRAMS[0]), parse_target("host"), 1)
    for value in (0, -1, 2**41, 2**70, "abc"):
        with pytest.raises(ScheduleError, match=r"t0\.rows is"):
            sketch.apply(task.body, task.target, {**pick["config"], "t0.rows": value})


def sweep(folder: Path, count: int, seed: int) -> tuple[int, int]:
    """Imports and compiles mutated lines, each between good ones; how many lines were refused, and how many records served."""
    rng = random.Random(seed)
    programs = [parse(text) for text in PROGRAMS]
    refused = served = 0
    for number in range(count):
        chosen = rng.randrange(len(lines()))
        changed = mutated(lines()[chosen], rng)
        good = lines()[(chosen + 2) % len(lines())]
        log = written(folder / "x.jsonl", changed, good)
        path = folder / f"{number}.sqlite"
        started = time.perf_counter()
        with Database(path) as database:
            report = import_log(log, database)
            assert len(report.bad) <= 1, changed
            assert any(task.program_key for task in database.tasks()), "the good line is there"
        refused += len(report.bad)
        if not report.bad:
            kernel = tilesmith.compile(programs[chosen // 2], db=path, threads=1)
            served += kernel.provenance.record is not None
        assert time.perf_counter() - started < AT_MOST, changed
        path.unlink()
    return refused, served


@pytest.fixture
def drafted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The analytic model's own picks, which are the same each time, are worked out once for each program."""
    known: dict[str, list[tuple[float, Pick]]] = {}
    own = AnalyticModel._own

    def found(model: AnalyticModel) -> list[tuple[float, Pick]]:
        if model._task.key not in known:
            known[model._task.key] = own(model)
        return known[model._task.key]

    monkeypatch.setattr(AnalyticModel, "_own", found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("drafted_once")
def test_mutated_lines_are_refused_or_served(tmp_path: Path) -> None:
    refused, served = sweep(tmp_path, 25, seed=1)
    assert refused > 5
    assert served > 3


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("drafted_once")
def test_twenty_thousand_mutated_lines_are_refused_or_served(tmp_path: Path) -> None:
    refused, served = sweep(tmp_path, 20_000, seed=2)
    warnings.warn(f"{refused} lines were refused, {served} records served", stacklevel=1)
    assert refused > 4000
    assert served > 2000


def test_a_log_that_cannot_become_a_database_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path / "x.jsonl", lines()[0])
    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path / "cache"))

    def fails(path: Path, database: Database) -> None:
        database.add_machine(Machine("k", "i"))
        raise RuntimeError("half way")

    monkeypatch.setattr("tilesmith.tuner.records.log.import_log", fails)
    with pytest.raises(RuntimeError, match="half way"):
        sources.log_database(log)
    folder = tmp_path / "cache" / "logs"
    assert list(folder.iterdir()) == []
