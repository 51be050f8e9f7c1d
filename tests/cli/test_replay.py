"""`tune replay`: a record's trial made again, on real kernels."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from cli.records import Call, fill

from tilesmith.measure.result import Failure, Measurement, Status
from tilesmith.tuner.explain import difference


def test_replay_builds_checks_and_times_again(call: Call, tmp_path: Path) -> None:
    db = tmp_path / "records.sqlite"
    fill(db)
    good = call("replay", 2, "--db", db)
    assert good.code == 0, good.err
    assert re.search(r"recorded +ok, 1 ms", good.out) and re.search(r"now +ok, [\d.]+ [mun]", good.out)
    assert "the record was built by b, this is codegen" in good.out
    crashed = call("replay", 3, "--db", db)  # recorded as a crash; the same config runs today
    assert crashed.code == 1
    assert "it ended as crash and now ends as ok" in crashed.out


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
