"""Which nodes measure, which build, which are refused; and cores that are one's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tilesmith.common.errors import EnvironmentFailure, TargetError
from tilesmith.measure.cluster.about_node import node_report
from tilesmith.measure.cluster.cores import Claim, core_sets, domains
from tilesmith.measure.cluster.nodes import NodeFacts, choose, nothing_fits, own_versions
from tilesmith.targets.target import parse_target

WIDE, NARROW = parse_target("x86:avx512;cores=4"), parse_target("x86:avx2;cores=4")
VERSIONS = own_versions()


def node(name: str, **other: Any) -> NodeFacts:
    facts = {"versions": VERSIONS, "processors": 4.0, "target": WIDE.text, "machine": "big", "cores": 4, "sets": 1}
    return NodeFacts(name, f"host-{name}", **{**facts, **other})


def names(nodes: tuple[NodeFacts, ...]) -> str:
    return "".join(facts.node for facts in nodes)


def test_nodes_are_matched_by_what_they_report() -> None:
    nodes = [
        node("a"),
        node("b"),
        node("c", missing=("avx512f",), target=NARROW.text, machine="small"),
        node("d", cores=1, sets=0),
        node("e", processors=0.0),
    ]
    choice = choose(nodes, VERSIONS, WIDE, 2)
    assert names(choice.devices) == "ab" and names(choice.builders) == "cd"
    reasons = {facts.node: reason for facts, reason in choice.left_out}
    assert "lacks avx512f" in reasons["c"] and "1 cores" in reasons["d"] and "no CPU" in reasons["e"]


@pytest.mark.parametrize(("package", "found"), [("tilesmith", "0.0"), ("llvmlite", "0.1"), ("tilesmith", "")])
def test_other_versions_are_refused_with_advice(package: str, found: str) -> None:
    odd = node("a", versions={**VERSIONS, package: found})
    choice = choose([odd, node("b")], VERSIONS, WIDE, 1)
    assert names(choice.devices) == "b" and names(choice.builders) == ""
    ((_, reason),) = choice.left_out
    assert package in reason and VERSIONS[package] in reason and "on that node" in reason
    error = nothing_fits(WIDE, 1, choice.left_out)
    assert isinstance(error, EnvironmentFailure) and "tilesmith cluster check" in error.advice


def test_times_come_from_one_kind_of_machine() -> None:
    many = [node(name, machine="other", target=NARROW.text) for name in "cde"]
    choice = choose([node("a"), *many], VERSIONS, WIDE, 1)
    assert names(choice.devices) == "a", "the one that is the target itself"
    assert names(choice.builders) == "cde"
    assert names(choose([node("a"), *many], VERSIONS, NARROW, 1).devices) == "cde"
    equal = [node("a"), node("b", machine="other"), node("c", machine="other")]
    assert names(choose(equal, VERSIONS, WIDE, 1).devices) == "bc", "the most numerous of equals"
    assert names(choose(equal, VERSIONS, WIDE, 1, _key("big")).devices) == "a", "a run keeps to its kind"


def _key(identity: str) -> str:
    from tilesmith.measure.machine import machine_key

    return machine_key(identity)


def test_a_cluster_without_a_device_is_listed() -> None:
    left_out = choose([node("a", missing=("avx512f",), target=NARROW.text)], VERSIONS, WIDE, 1).left_out
    error = nothing_fits(WIDE, 1, left_out)
    assert isinstance(error, TargetError)
    assert "host-a" in error.found and "avx512f" in error.found and NARROW.text in error.advice


def test_where_only_threads_are_too_many_fewer_are_advised() -> None:
    nodes = [node("a", cores=2, sets=0), node("b", cores=4, sets=0), node("c", cores=32, sets=0, missing=("avx512f",))]
    error = nothing_fits(WIDE, 8, choose(nodes, VERSIONS, WIDE, 8).left_out)
    assert isinstance(error, TargetError) and error.advice == "--threads 4 fits what is there"


def test_a_node_reports_what_it_is() -> None:
    report = node_report("host", 1)
    assert report["missing"] == () and report["cores"] >= 1 and report["sets"] >= 1
    assert report["target"] == parse_target("host").text
    assert node_report("aarch64:neon", 1)["missing"] or "aarch64" in report["target"]


def machine(folder: Path, cores: int, threads: int, shared: int) -> Path:
    """A machine of so many cores with so many hardware threads, of which `shared` cores have one last cache."""
    for cpu in range(cores * threads):
        core = cpu % cores
        siblings = ",".join(str(core + cores * t) for t in range(threads))
        group = range(core // shared * shared, core // shared * shared + shared)
        cache = ",".join(str(c + cores * t) for t in range(threads) for c in group)
        for place, name, text in (
            ("topology", "thread_siblings_list", siblings),
            ("cache/index0", "shared_cpu_list", siblings),
            ("cache/index0", "level", "1"),
            ("cache/index3", "shared_cpu_list", cache),
            ("cache/index3", "level", "3"),
        ):
            (folder / f"cpu{cpu}" / place).mkdir(parents=True, exist_ok=True)
            (folder / f"cpu{cpu}" / place / name).write_text(text)
    return folder


def test_sets_lie_in_caches_of_their_own(tmp_path: Path) -> None:
    found = domains(range(16), machine(tmp_path, cores=8, threads=2, shared=4))
    assert found == [[(0, 8), (1, 9), (2, 10), (3, 11)], [(4, 12), (5, 13), (6, 14), (7, 15)]]
    assert core_sets(found, 2) == [[(0, 8), (1, 9)], [(4, 12), (5, 13)]]
    assert core_sets(found, 4) == [found[0], found[1]]
    assert core_sets(found, 6) == [[*found[0], (4, 12), (5, 13)]]
    assert core_sets(found, 9) == []


def test_a_machine_without_tables_is_one_domain(tmp_path: Path) -> None:
    assert domains([3, 5], tmp_path) == [[(3,), (5,)]]


CLAIM = """
import sys
from pathlib import Path
from tilesmith.measure.cluster.cores import Claim
claim = Claim(1, Path(sys.argv[1]))
print(*claim.cpus, flush=True)
sys.stdin.read()
"""


def test_cores_are_claimed_until_the_process_ends(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    claim = Claim(len(domains(before)[0]) if len(domains(before)) > 1 else 1, tmp_path)
    assert os.sched_getaffinity(0) == set(claim.cpus)
    claim.release()
    claim.release()
    assert os.sched_getaffinity(0) == before
    owners = [
        subprocess.Popen([sys.executable, "-c", CLAIM, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(sum(map(len, domains(before))))
    ]
    taken = [owner.stdout.readline().split() for owner in owners if owner.stdout]
    assert sorted(int(cpu) for cpus in taken for cpu in cpus) == sorted(before)
    with pytest.raises(EnvironmentFailure, match="taken by other timers"):
        Claim(1, tmp_path)
    owners[0].kill()
    owners[0].communicate()
    again = Claim(1, tmp_path)
    assert list(again.cpus) == [int(cpu) for cpu in taken[0]]
    again.release()
    for owner in owners[1:]:
        owner.communicate()
