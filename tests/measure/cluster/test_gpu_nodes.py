"""Nodes with GPUs: what they report, which one serves, and workers that own one each. The driver is a fake."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts.ray_cluster import HOST, Cluster, fake_driver
from contracts.ray_hosts import SLEEPER, sleep_job
from contracts.runner import gather
from tilesmith.common.errors import TargetError
from tilesmith.measure.cluster.about_node import gpu_report, node_report
from tilesmith.measure.cluster.messages import ConnectRequest
from tilesmith.measure.cluster.nodes import NodeFacts, choose, nothing_fits, own_versions
from tilesmith.measure.cluster.ray_runner import ask_cluster
from tilesmith.measure.machine import identity_for, machine_identity
from tilesmith.targets.backend import Gpu
from tilesmith.targets.cuda.devices import own_target
from tilesmith.targets.target import parse_target

HOPPER = Gpu("a", (9, 0), 132, 50 << 20, 80 << 30)
AMPERE = Gpu("b", (8, 0), 108, 40 << 20, 40 << 30)
VERSIONS = own_versions()
WANTED = parse_target("cuda:sm_90a")


def node(name: str, *gpus: Gpu, lent: float | None = None, **other: Any) -> NodeFacts:
    facts = {"versions": VERSIONS, "processors": 4.0, "gpus": len(gpus) if lent is None else lent, "cores": 4}
    return NodeFacts(name, f"host-{name}", **{**facts, **gpu_report(WANTED, gpus), **other})


def test_a_gpu_is_its_own_target() -> None:
    target = parse_target(own_target(HOPPER))
    assert (target.level, target.cores, target.caches[-1].bytes) == ("sm_90a", 132, 50 << 20)
    assert own_target(Gpu("old", (3, 5), 13, 0, 0)) == ""
    assert target.needs_device and not parse_target("x86:avx2").needs_device


def test_nodes_are_matched_by_their_gpus() -> None:
    nodes = [
        node("a", HOPPER, HOPPER),
        node("b", AMPERE),
        node("c"),
        node("d", HOPPER, lent=0),
        node("e", HOPPER, AMPERE),
    ]
    choice = choose(nodes, VERSIONS, WANTED, threads=132)
    assert [facts.node for facts in choice.devices] == ["a"], "132 multiprocessors are no cores of the machine"
    assert {facts.node for facts in choice.builders} == set("bcde"), "code for a GPU is built without one"
    reasons = {facts.node: reason for facts, reason in choice.left_out}
    assert "runs sm_90a" in reasons["b"] and "runs sm_90a" in reasons["c"]
    assert "--num-gpus" in reasons["d"] and "CUDA_VISIBLE_DEVICES of one kind" in reasons["e"]
    error = nothing_fits(WANTED, 132, choice.left_out)
    assert isinstance(error, TargetError) and "cuda:sm_80" in error.advice and "threads" not in error.expected


def test_gpus_of_one_kind_measure_together() -> None:
    later = Gpu("a", (9, 0), 132, 50 << 20, (80 << 30) - (60 << 20))  # the driver keeps a little more for itself
    nodes = [node("a", HOPPER), node("b", later), node("c", Gpu("c", (9, 0), 114, 50 << 20, 80 << 30))]
    assert [facts.node for facts in choose(nodes, VERSIONS, WANTED, 1).devices] == ["a", "b"]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{fake_driver(tmp_path)}:{os.environ.get('LD_LIBRARY_PATH', '')}")


@pytest.mark.parametrize(("visible", "sets"), [(None, 3), ("1", 1), ("", 3)])
def test_the_driver_is_asked_in_a_process_of_its_own(
    driver: None, monkeypatch: pytest.MonkeyPatch, visible: str | None, sets: int
) -> None:
    monkeypatch.setenv("FAKE_GPUS", "9.0/132 9.0/132 9.0/132")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)  # "" is what Ray shows to a task that borrows none
    report = node_report("cuda:sm_90a", 1)
    assert report["sets"] == sets and "missing" not in report and report["target"].startswith("cuda:sm_90a")
    assert "fake of 132" in report["machine"] and report["machine"] != machine_identity()
    assert identity_for(parse_target("x86:avx2")) == machine_identity()


def test_a_node_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    report = node_report("cuda:sm_90a", 1)
    assert report["target"] == HOST and "NVIDIA device" in report["missing"][0]


@pytest.mark.slow
def test_each_worker_owns_one_gpu(driver: None, new_cluster: Callable[[int], Cluster]) -> None:
    pytest.importorskip("ray")
    cluster = new_cluster(1)  # a node without any GPU
    cluster.add(gpus=2, env_vars={"FAKE_GPUS": "9.0/132 9.0/132"})
    cluster.add(gpus=1, env_vars={"FAKE_GPUS": "8.0/108"})
    with cluster.runner(SLEEPER, target="cuda:sm_90a", tell=lambda _: None) as runner:
        places: set[str] = set()
        end = time.monotonic() + 60
        while len(places) < 2 and time.monotonic() < end:  # one may be ready long before the other
            for number in range(30):
                runner.submit(sleep_job(number))
            places |= {m.device.rpartition(" GPU ")[2] for m in gather(runner, 30).values()}
        assert '"gpu"' in runner.machine and "132" in runner.machine
    assert places == {"0", "1"}, "the two GPUs of the only node that runs the target"
    nodes = ask_cluster("check", ConnectRequest(cluster.ray.address, WANTED.text, 1))
    assert sorted(facts.gpus for facts in nodes) == [0, 0, 1, 2]
    with pytest.raises(TargetError, match="no device for the target") as caught:
        cluster.runner(SLEEPER, target="cuda:sm_100")
    assert "cuda:sm_90a" in caught.value.advice and "cuda:sm_80" in caught.value.advice
