"""Which nodes of a cluster can do what, from what they report: features, cores, versions. Never from their names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from ...common.errors import EnvironmentFailure, TargetError
from ...targets.target import Target, parse_target
from ..machine import machine_key

PACKAGES = ("tilesmith", "llvmlite")  # what must be the same everywhere: kernels and their keys depend on them


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Holds what a node says of itself.

    Attributes:
        node: its id in the cluster.
        host: its name, for people.
        processors, gpus: CPUs and GPUs that the cluster lends out there.
        versions: package -> version; "" where it is not installed.
        target: the text of its own target; where a GPU is wanted and it has one, of that.
        missing: what it lacks for the wanted target; empty when nothing.
        machine: the identity of what measures there (`machine.identity_for`).
        cores: physical cores that a process may use there.
        sets: how many core sets of the wanted number of threads it has, or GPUs.
        problem: why it could not answer at all.
    """

    node: str
    host: str
    processors: float = 0.0
    gpus: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    missing: tuple[str, ...] = ()
    machine: str = ""
    cores: int = 0
    sets: int = 0
    problem: str = ""

    @property
    def title(self) -> str:
        """Its name and the start of its id: several nodes may be on one host."""
        return f"{self.host} ({self.node[:8]})"


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """The nodes that measure (all alike), those that only build, and why each other one is left out."""

    devices: tuple[NodeFacts, ...]
    builders: tuple[NodeFacts, ...]
    left_out: tuple[tuple[NodeFacts, str], ...]


def own_versions() -> dict[str, str]:
    """Returns the versions of the packages that must be the same everywhere."""
    return {package: _version(package) for package in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def refusal(facts: NodeFacts, versions: Mapping[str, str]) -> str:
    """Says why nothing may run on a node, with what to do; "" when something may."""
    if facts.problem:
        return facts.problem
    for package, wanted in versions.items():
        found = facts.versions.get(package, "")
        if not found:
            return f"{package} is not installed there: install the wheel of {package} {wanted} on that node"
        if found != wanted:
            return f"it has {package} {found}, this is {wanted}: pip install {package}=={wanted} on that node"
    return ""


def unfit(facts: NodeFacts, target: Target, threads: int) -> str:
    """Says why kernels of this target cannot be measured on a node; "" when they can."""
    if facts.missing:
        return f"it lacks {', '.join(facts.missing)}"
    if target.needs_device:
        if facts.gpus < 1:
            return "the cluster lends out no GPU there: start Ray on it with --num-gpus"
    elif facts.cores < threads or not facts.sets:
        return f"it has {facts.cores} cores, and {threads} threads are wanted"
    if facts.processors < 1:
        return "the cluster lends out no CPU there"
    return ""


def choose(
    nodes: Iterable[NodeFacts], versions: Mapping[str, str], target: Target, threads: int, machine: str = ""
) -> NodeSelection:
    """Sorts nodes by their use. Times are compared within one kind of machine only: of several kinds, one measures.

    It is the one that is the target itself, or has its level; of equals the most numerous.

    Args:
        machine: the key of the kind of machine to keep to, once it is chosen.
    """
    left_out: list[tuple[NodeFacts, str]] = []
    builders: list[NodeFacts] = []
    kinds: defaultdict[str, list[NodeFacts]] = defaultdict(list)
    for facts in nodes:
        if reason := refusal(facts, versions):
            left_out.append((facts, reason))
        elif reason := unfit(facts, target, threads):
            left_out.append((facts, reason))
            if facts.processors >= 1:
                builders.append(facts)
        else:
            kinds[machine_key(facts.machine)].append(facts)

    def unlike(kind: str) -> tuple[bool, bool, int, str]:
        own = parse_target(kinds[kind][0].target)
        devices = sum(facts.sets for facts in kinds[kind])
        return own != target, own.level != target.level, -devices, kind

    chosen = machine or min(kinds, key=unlike, default="")
    for kind, members in kinds.items():
        if kind != chosen:
            left_out += [(facts, "it is another kind of machine: it builds, and times nothing") for facts in members]
            builders += members
    return NodeSelection(tuple(kinds.get(chosen, ())), tuple(builders), tuple(left_out))


def nothing_fits(target: Target, threads: int, left_out: Sequence[tuple[NodeFacts, str]]) -> Exception:
    """The error of a cluster that has no device: what is there, and why each does not serve."""
    found = "; ".join(f"{facts.title}: {reason}" for facts, reason in left_out) or "no nodes"
    lending = [facts for facts, _ in left_out if facts.processors] or [facts for facts, _ in left_out]
    if lending and all(refusal(facts, own_versions()) for facts in lending):
        wanted = ", ".join(f"{package} {number}" for package, number in own_versions().items())
        return EnvironmentFailure(
            "no node of the cluster can be used",
            expected=wanted,
            found=found,
            advice="install the same wheels on all nodes; `tilesmith cluster check` shows each",
        )
    return TargetError(
        "the cluster has no device for the target",
        expected=target.text if target.needs_device else f"{target.text}, {threads} threads",
        found=found,
        advice=_what_fits(target, threads, [facts for facts, _ in left_out]),
    )


def _what_fits(target: Target, threads: int, nodes: Sequence[NodeFacts]) -> str:
    """Says what to ask of a cluster instead: fewer threads, where that is all that its nodes lack, else a target of theirs."""
    most = max((facts.cores for facts in nodes if facts.processors >= 1 and not facts.missing), default=0)
    if not target.needs_device and 0 < most < threads:
        return f"--threads {most} fits what is there"
    own = sorted({facts.target for facts in nodes if facts.target})
    return "give one of these by --target: " + " or ".join(own) if own else "`tilesmith cluster check` shows each node"
