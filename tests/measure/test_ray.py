"""The runner over Ray: what every runner promises, and workers, nodes and heads that go away in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.measure_fakes import fake_job
from contracts.ray_hosts import FAKE, FAKE_BUILDERS, SLEEPER, sleep_job
from contracts.runner import RunnerContract, gather
from tilesmith.common.errors import ArgumentError, EnvironmentFailure, TargetError
from tilesmith.measure.ray_runner import RayRunner, ask_cluster
from tilesmith.measure.result import Job, Measurement, Purpose
from tilesmith.measure.talk import Call
from tilesmith.targets.target import parse_target

pytest.importorskip("ray", reason="Ray is not installed (pip install 'tilesmith[ray]')")

TESTS = str(Path(__file__).parents[1])
HOST = parse_target("host").text
MEMORY = 100 << 20


class Cluster:
    """A head without processors, and nodes that are added and taken away."""

    def __init__(self, nodes: int, processors: int = 2) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        self.ray: Any = RayCluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": MEMORY},
        )
        self.processors = processors
        self.nodes = [self.add() for _ in range(nodes)]

    def add(self) -> Any:
        return self.ray.add_node(num_cpus=self.processors, object_store_memory=MEMORY)

    def runner(self, factory: str = FAKE, **options: Any) -> RayRunner:
        return RayRunner(
            self.ray.address, HOST, 1, factory=factory, build_factory=FAKE_BUILDERS, exclusive=False, **options
        )


@pytest.fixture(scope="module")
def workers_path() -> Iterator[None]:
    """Workers find the fakes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]))
        yield


@pytest.fixture(scope="module")
def cluster(workers_path: None) -> Iterator[Cluster]:
    made = Cluster(1)
    yield made
    made.ray.shutdown()


@pytest.fixture
def new_cluster(workers_path: None) -> Iterator[Callable[[int], Cluster]]:
    made: list[Cluster] = []

    def make(nodes: int) -> Cluster:
        made.append(Cluster(nodes))
        return made[-1]

    yield make
    for one in made:
        one.ray.shutdown()


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[list[RayRunner]]:
    """One runner for many tests: its start takes seconds."""
    kept = [cluster.runner(devices=1)]
    yield kept
    kept[0].close()


class TestRayRunner(RunnerContract):
    @pytest.fixture
    def runner(self, shared: list[RayRunner], cluster: Cluster) -> RayRunner:
        if shared[0]._closed:
            shared[0] = cluster.runner(devices=1)
        return shared[0]

    def good_job(self, number: int, purpose: Purpose = Purpose.SEARCH) -> Job:
        return fake_job(number, purpose)

    def bad_job(self, number: int) -> Job:
        return fake_job(number, build="segfault")


def one(runner: RayRunner, job: Job) -> Measurement:
    runner.submit(job)
    return gather(runner, 1)[job.number]


def test_it_says_where_it_was_measured(cluster: Cluster) -> None:
    with cluster.runner(devices=1) as runner:
        found = one(runner, fake_job(1, seconds=2e-3))
        assert found.ok and found.seconds == 2e-3 and " on " in found.device and found.builder == "fake 1"
        assert runner.machine.startswith("{") and runner.ceilings is None


def test_a_worker_and_the_bridge_may_die(cluster: Cluster) -> None:
    told: list[str] = []
    with cluster.runner(SLEEPER, tell=told.append) as runner:
        first = one(runner, sleep_job(0))
        for number in range(1, 41):
            runner.submit(sleep_job(number))
        done = dict(runner.collect())
        os.kill(pid_of(first), signal.SIGKILL)  # a worker
        while len(done) < 20:
            done |= dict(runner.collect(timeout=1.0))
        os.kill(runner._child.pid, signal.SIGKILL)  # the process that speaks Ray
        end = time.monotonic() + 60
        while len(done) < 40 and time.monotonic() < end:
            for number, measurement in runner.collect(timeout=1.0):
                assert number not in done
                done[number] = measurement
        assert sorted(done) == list(range(1, 41)) and all(m.ok for m in done.values())
    assert any("was lost" in text for text in told) and any("cluster is gone" in text for text in told)


def pid_of(measurement: Measurement) -> int:
    return int(measurement.device.split()[1])


def test_a_job_that_ends_its_workers_is_a_failure(cluster: Cluster) -> None:
    with cluster.runner(SLEEPER, tell=lambda _: None) as runner:
        runner.submit(sleep_job(1, do="die"))
        runner.submit(sleep_job(2))
        done = gather(runner, 2)
        assert done[2].ok and done[1].failure is not None and "workers were lost" in done[1].failure.message


def test_status_and_check(cluster: Cluster) -> None:
    with cluster.runner(SLEEPER) as runner:
        one(runner, sleep_job(1))
        time.sleep(3.5)
        (status,) = ask_cluster("status", Call(cluster.ray.address, HOST, 1))
        assert sum(host.done for host in status.hosts) == 1 and status.target == HOST
    nodes = ask_cluster("check", Call(cluster.ray.address, HOST, 1))
    assert sorted(facts.processors for facts in nodes) == [0.0, 2.0]
    assert all(facts.problem == "" and facts.missing == () for facts in nodes)


def test_a_cluster_without_such_a_device(cluster: Cluster) -> None:
    other = "aarch64:neon" if HOST.startswith("x86") else "x86:avx2"
    with pytest.raises(TargetError, match="no device for the target") as caught:
        RayRunner(cluster.ray.address, parse_target(other).text, 1)
    assert HOST in caught.value.advice and "lacks a processor" in caught.value.found


def test_nobody_there() -> None:
    with pytest.raises(EnvironmentFailure, match=r"no Ray cluster answers at ray://127.0.0.1:1") as caught:
        RayRunner("ray://127.0.0.1:1", HOST, 1, wait=1.5)
    assert "tries" in caught.value.found


def test_closed_is_closed(cluster: Cluster) -> None:
    runner = cluster.runner(SLEEPER)
    runner.close()
    assert list(runner.collect()) == []
    with pytest.raises(ArgumentError, match="closed"):
        runner.submit(sleep_job(1))


# ---- slow: whole nodes


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_node_that_disappears_loses_no_trial(new_cluster: Callable[[int], Cluster], victim: int) -> None:
    cluster = new_cluster(3)
    with cluster.runner(SLEEPER, tell=lambda _: None) as runner:
        for number in range(500):
            runner.submit(sleep_job(number))
        done: dict[int, Measurement] = {}
        lost = False
        end = time.monotonic() + 120
        while len(done) < 500 and time.monotonic() < end:
            for number, measurement in runner.collect(timeout=1.0):
                assert number not in done
                done[number] = measurement
            if len(done) > 100 + 50 * victim and not lost:
                cluster.ray.remove_node(cluster.nodes[victim], allow_graceful=False)
                lost = True
        assert lost and sorted(done) == list(range(500)) and all(m.ok for m in done.values())


@pytest.mark.slow
def test_a_node_that_comes_later_helps(new_cluster: Callable[[int], Cluster]) -> None:
    cluster = new_cluster(1)
    with cluster.runner(SLEEPER) as runner:
        cluster.add()
        devices: set[int] = set()
        number = 0
        end = time.monotonic() + 60
        while len(devices) < 4 and time.monotonic() < end:
            for _ in range(20):
                number += 1
                runner.submit(sleep_job(number))
            devices |= {pid_of(m) for m in gather(runner, 20).values()}
        assert len(devices) == 4


@pytest.mark.slow
def test_a_worker_that_hangs_is_given_up(new_cluster: Callable[[int], Cluster]) -> None:
    told: list[str] = []
    with new_cluster(1).runner(SLEEPER, silence=3.0, tell=told.append) as runner:
        pid = pid_of(one(runner, sleep_job(0)))
        for number in range(1, 31):
            runner.submit(sleep_job(number))
        runner.collect(timeout=0.0)
        os.kill(pid, signal.SIGSTOP)
        assert all(m.ok for m in gather(runner, 30).values())
    assert any("has not answered" in text for text in told)


@pytest.mark.slow
def test_a_node_that_fails_often_is_set_aside(new_cluster: Callable[[int], Cluster]) -> None:
    told: list[str] = []
    with new_cluster(1).runner(SLEEPER, devices=1, tell=told.append) as runner:
        for round_ in range(3):
            os.kill(pid_of(one(runner, sleep_job(round_))), signal.SIGKILL)
            if round_ < 2:
                time.sleep(1.0)
        runner.submit(sleep_job(9))
        with pytest.raises(EnvironmentFailure, match="no worker left"):
            gather(runner, 1)
    assert any("is set aside" in text for text in told)


HEAD = """
import sys, time
from ray.cluster_utils import Cluster
port = int(sys.argv[1])
args = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 100 << 20, "port": port}
cluster = Cluster(initialize_head=True, head_node_args=args)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.mark.slow
def test_a_head_that_is_started_again(workers_path: None) -> None:
    def start() -> tuple[subprocess.Popen[str], str]:
        head = subprocess.Popen(
            [sys.executable, "-c", HEAD, "26379"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert head.stdout is not None
        return head, head.stdout.readline().strip()

    head, address = start()
    with RayRunner(
        address, HOST, 1, factory=SLEEPER, exclusive=False, silence=5.0, tell=lambda _: None, options={"seconds": 0.1}
    ) as runner:
        for number in range(100):
            runner.submit(sleep_job(number))
        done: dict[int, Measurement] = {}
        while len(done) < 20:
            done |= dict(runner.collect(timeout=1.0))
        head.communicate(timeout=60)
        head, _ = start()
        end = time.monotonic() + 150
        while len(done) < 100 and time.monotonic() < end:
            for number, measurement in runner.collect(timeout=1.0):
                assert number not in done
                done[number] = measurement
        assert sorted(done) == list(range(100)) and all(m.ok for m in done.values())
    head.communicate(timeout=60)
