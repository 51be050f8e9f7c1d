"""The runner over Ray when whole nodes, workers and heads go away: slow, because clusters are started and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.ray_cluster import HOST, Cluster, needs_ray, pid_of
from contracts.ray_hosts import SLEEPER, sleep_job
from contracts.runner import gather
from tilesmith.common.errors import EnvironmentFailure
from tilesmith.measure.cluster.ray_runner import RayRunner
from tilesmith.measure.result import Job, Measurement

pytestmark = [needs_ray, pytest.mark.slow]


def one(runner: RayRunner, job: Job) -> Measurement:
    runner.submit(job)
    return gather(runner, 1)[job.number]


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


OTHER_VERSION = """
from importlib import metadata
version = metadata.version
metadata.version = lambda package: "9.9.9" if package == "tilesmith" else version(package)
"""


def test_a_node_with_another_version_is_refused(new_cluster: Callable[[int], Cluster], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        OTHER_VERSION
    )  # Python runs it where it starts with this folder on its path
    cluster = new_cluster(0)
    cluster.add(env_vars={"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])})
    with pytest.raises(EnvironmentFailure, match="no node of the cluster can be used") as caught:
        cluster.runner(SLEEPER)
    assert "9.9.9" in caught.value.found and "pip install tilesmith==" in caught.value.found


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
