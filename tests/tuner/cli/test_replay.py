"""`tune replay`: a record's trial made again, on real kernels."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from helpers.command_line.records import SKETCH, Call, fill
from tilesmith.measure.result import Failure, Job, Measurement, Purpose, Status
from tilesmith.tuner.cli.explain import difference


def test_replay_builds_checks_and_times_again(call: Call, tmp_path: Path) -> None:
    db = tmp_path / "records.sqlite"
    fill(db)
    answer = call("replay", 2, "--db", db)
    assert re.search(r"recorded +ok, 1 ms", answer.out), answer.err
    assert re.search(r"now +(ok, [\d.]+ [mun]|unstable in time)", answer.out)  # a busy machine cannot be timed
    assert "the record was built by b, this is codegen" in answer.out


@pytest.mark.parametrize(
    ("number", "now", "code", "words"),
    [
        (2, Measurement(Status.OK, (1e-3, 1e-3)), 0, "none to speak of"),
        (2, Measurement(Status.OK, (5e-3, 5e-3)), 0, "now 400.0% slower"),
        (2, Measurement(Status.CRASH, failure=Failure("time", "signal 8")), 1, "it ended as ok and now ends as crash"),
        (3, Measurement(Status.CRASH, failure=Failure("time", "signal 11")), 0, "none: it ends in the same way"),
        (3, Measurement(Status.OK, (1e-3,)), 1, "it ended as crash and now ends as ok"),
    ],
)
def test_replay_says_whether_it_differs(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, now: Measurement, code: int, words: str
) -> None:
    db = tmp_path / "records.sqlite"
    task = fill(db)
    jobs: list[Job] = []
    seeds: list[object] = []
    monkeypatch.setattr(
        "tilesmith.tuner.cli.explain.LocalRunner",
        lambda *_, seed, **__: (seeds.append(seed), FixedRunner(now, jobs))[1],
    )
    answer = call("replay", number, "--db", db, "--seed", 5)
    assert seeds == [5]
    assert answer.code == code and words in answer.out
    (job,) = jobs
    assert (job.program, job.sketch, job.config) == (task.program, SKETCH.text, {"i.tile": number})
    assert (job.target, job.threads, job.purpose) == (task.target, 1, Purpose.CONFIRM)


class FixedRunner:
    """A runner in which every trial ends alike."""

    def __init__(self, end: Measurement, jobs: list[Job]) -> None:
        self._end, self._jobs = end, jobs

    def confirm(self, jobs: Sequence[Job]) -> list[tuple[int, Measurement]]:
        self._jobs += jobs
        return [(job.number, self._end) for job in jobs]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


BEFORE = Measurement(Status.OK, (0.9, 1.0, 1.1))


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((0.99, 1.01, 1.05), "none to speak of (1.0% slower)"),
        ((1.05, 1.2, 1.3), "none to speak of (20.0% slower)"),  # the spreads overlap
        ((1.101, 1.101, 1.101), "now 10.1% slower"),
        ((0.5, 0.5, 0.5), "now 50.0% faster"),
    ],
)
def test_times_differ_beyond_their_spread_and_a_tenth(times: tuple[float, ...], words: str) -> None:
    assert difference(BEFORE, replace(BEFORE, times=times)) == words


def test_failures_differ_by_how_they_end() -> None:
    crash = Measurement(Status.CRASH, failure=Failure("time", "signal 11"))
    assert difference(crash, crash) == "none: it ends in the same way"
    assert difference(BEFORE, crash) == "it ended as ok and now ends as crash"
