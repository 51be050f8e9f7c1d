"""What `tune cluster status` and `check` say of what a cluster reports, and how they end; nothing here needs Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.command_line.records import Call
from tilesmith.common.errors import EnvironmentFailure
from tilesmith.measure.cluster.nodes import NodeFacts, own_versions
from tilesmith.measure.cluster.status import HostStatus, RunStatus
from tilesmith.measure.result import Failure, Job, Measurement, Status
from tilesmith.targets.target import parse_target
from tilesmith.tuner.cli import cluster

GOOD = NodeFacts("a" * 20, "first", 4.0, 0.0, own_versions(), parse_target("host").text, cores=4, sets=4)
FINE = Measurement(Status.OK, (2e-6,), device="EPYC on first cores 0")
BAD = Measurement(Status.CRASH, failure=Failure("run", "signal 11 (SIGSEGV)"), device="EPYC on second cores 0")


class Runner:
    """Answers each job with the next of some measurements, two at a time."""

    capacity, ceilings = 2, None

    def __init__(self, ends: Sequence[Measurement]) -> None:
        self.ends, self.jobs = list(ends), list[Job]()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self.ends = []

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def collect(self) -> Iterator[tuple[int, Measurement]]:
        two, self.jobs = self.jobs[:2], self.jobs[2:]
        return iter([(job.number, self.ends[job.number % len(self.ends)]) for job in two])


def answer(monkeypatch: pytest.MonkeyPatch, what: Sequence[Any], ends: Sequence[Measurement] = (FINE,)) -> None:
    """A cluster that says so."""
    monkeypatch.setattr(cluster, "address_of", lambda address: "head:1")
    monkeypatch.setattr(cluster, "ask_cluster", lambda asked, request: what)
    monkeypatch.setattr(cluster, "RayRunner", lambda *given, **named: Runner(ends))


def test_nothing_goes_on(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, [])
    result = call("cluster", "status")
    assert result.code == 0 and "no run is going on there" in result.out


def test_runs_are_shown_with_their_hosts(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = (
        HostStatus("first cores 0", False, 1, 30, 2, 1.0, True),
        HostStatus("second cores 0", False, 0, 10, 0, 1.25, False),
        HostStatus("third", True, 3, 99, 1, 1.0, True),
    )
    run = RunStatus("head pid 7", "x86:avx2;cores=2", 100.0, 120.0, hosts, ("fourth: its driver is old",))
    answer(monkeypatch, [run])
    result = call("cluster", "status")
    assert "head pid 7: x86:avx2, 2.00 trials/s for 20 s" in result.out, "what builds makes no trials"
    rows = {line.split()[0]: line for line in result.out.splitlines() if line.split()}
    assert "measures" in rows["first"] and "steady" in rows["first"]
    assert "1.250" in rows["second"] and "drifting" in rows["second"]
    assert "builds" in rows["third"] and "steady" not in rows["third"]
    assert "not used any more: fourth: its driver is old" in result.out


def test_all_is_well(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, [GOOD, replace(GOOD, node="b" * 20, host="thin", cores=1, sets=0)])
    result = call("cluster", "check", "--threads", "2")
    assert result.code == 0 and "a matmul of 64 on first cores 0: 2.0 us" in result.out
    assert result.out.count("is first (aaaaaaaa) itself") == 1
    assert cluster.verdict(GOOD, parse_target("host"), 2) == "measures"


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({"problem": "no answer"}, "refused: no answer"),
        ({"versions": {}}, "refused: tilesmith is not installed there"),
        ({"missing": ("avx9",)}, "builds: it lacks avx9"),
        ({"cores": 1}, "builds: it has 1 cores, and 2 threads are wanted"),
        ({"processors": 0.0}, "idle: the cluster lends out no CPU there"),
    ],
)
def test_a_verdict_says_why(facts: dict[str, Any], verdict: str) -> None:
    assert cluster.verdict(replace(GOOD, **facts), parse_target("host"), 2).startswith(verdict)


def test_a_node_that_may_not_be_used_ends_with_1(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, [GOOD, replace(GOOD, problem="no answer")])
    assert call("cluster", "check", "--threads", "1").code == 1


def test_a_kernel_that_fails_somewhere_ends_with_1(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, [GOOD], [FINE, BAD])
    result = call("cluster", "check", "--threads", "1")
    assert result.code == 1 and "second cores 0: crash: signal 11 (SIGSEGV)" in result.out
    assert "first cores 0: 2.0 us" in result.out


def test_one_good_trial_speaks_for_a_device(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, [GOOD], [replace(BAD, device=FINE.device), FINE])
    assert call("cluster", "check", "--threads", "1").code == 0


def test_a_cluster_on_which_nothing_can_be_tried(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, [GOOD])

    def gone(*given: object, **named: object) -> SimpleNamespace:
        raise EnvironmentFailure("the cluster is gone")

    monkeypatch.setattr(cluster, "RayRunner", gone)
    result = call("cluster", "check", "--threads", "1")
    assert result.code == 1 and "no kernel could be tried" in result.out and "the cluster is gone" in result.out
