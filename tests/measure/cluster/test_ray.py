"""The runner over Ray: what every runner promises, and workers, nodes and heads that go away in the middle."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from contracts.measure_fakes import fake_job
from contracts.ray_cluster import HOST, Cluster, needs_ray, pid_of
from contracts.ray_hosts import SLEEPER, sleep_job
from contracts.runner import RunnerContract, gather
from tilesmith.common.errors import ArgumentError, EnvironmentFailure, TargetError
from tilesmith.measure.cluster.messages import ConnectRequest
from tilesmith.measure.cluster.ray_runner import RayRunner, ask_cluster
from tilesmith.measure.result import Job, Measurement, Purpose
from tilesmith.targets.target import parse_target

pytestmark = needs_ray


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
        # Of a run whose bridge was killed the board may still hang there.
        found = ask_cluster("status", ConnectRequest(cluster.ray.address, HOST, 1))
        (status,) = [one for one in found if sum(host.done for host in one.hosts) == 1]
        assert status.target == HOST
    nodes = ask_cluster("check", ConnectRequest(cluster.ray.address, HOST, 1))
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


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize("mode", ["", "token", "lost"])
def test_a_cluster_that_wants_another_token(scheme: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    grpc = pytest.importorskip("grpc")
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "00" * 32 if mode == "token" else "")
    monkeypatch.setenv("RAY_AUTH_MODE", "token" if mode else "disabled")
    monkeypatch.setenv("HOME", "/nowhere")

    class Guard(grpc.ServerInterceptor):  # type: ignore[misc]
        def intercept_service(self, continuation: object, call: object) -> object:
            return grpc.unary_unary_rpc_method_handler(
                lambda _, context: context.abort(grpc.StatusCode.UNAUTHENTICATED, "no such token")
            )

    server = grpc.server(ThreadPoolExecutor(1), interceptors=[Guard()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    words = {
        "": "no such token: we send none",
        "token": "no such token: ours is another",
        "lost": "Token authentication is enabled",
    }
    try:
        with pytest.raises(EnvironmentFailure, match="wants its token") as caught:
            RayRunner(f"{scheme}127.0.0.1:{port}", HOST, 1)
    finally:
        server.stop(None)
    assert words[mode] in caught.value.found and "RAY_AUTH_MODE=token" in caught.value.advice


def test_closed_is_closed(cluster: Cluster) -> None:
    runner = cluster.runner(SLEEPER)
    runner.close()
    assert list(runner.collect()) == []
    with pytest.raises(ArgumentError, match="closed"):
        runner.submit(sleep_job(1))
