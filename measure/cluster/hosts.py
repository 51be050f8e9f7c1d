"""The hosts that a run has hired on a cluster: where, how many, and what becomes of those that are lost."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from ...targets.target import parse_target
from ..result import Job
from .host import Errand, HostFacts, Order
from .messages import ConnectRequest
from .nodes import NodeFacts, NodeSelection
from .pool import HostPool
from .ray_pool import kill, start_host, when_done
from .roster import Roster

START = 120.0  # seconds until a host must be ready: it may calibrate first
_BUILDERS = 16  # builder children of one node at most
_WITH_GPU = 8  # cores that go with one GPU at most: for what checks its results, and for builders

Happening = Callable[[], None]


@dataclass
class _Member:
    """A host that was asked for."""

    node: NodeFacts
    builds: bool
    handle: Any
    ready: bool = False
    deadline: float = field(default_factory=lambda: monotonic() + START)


class Hired:
    """Hosts of a cluster (implements `pool.Hosts`); what happens is put into `events`, to be run by the pool's thread."""

    def __init__(self, call: ConnectRequest, events: queue.SimpleQueue[Happening]) -> None:
        self._call, self._events = call, events
        self._gpu = parse_target(call.target).needs_device
        self.members: dict[str, _Member] = {}
        self.roster = Roster()
        self.pool: HostPool | None = None
        self.tell: Callable[[str], None] = print
        self._count = 0

    def hire(self, choice: NodeSelection) -> None:
        """Asks nodes for the hosts that they have room for: devices first, and builders on what they leave."""
        for facts in choice.devices:
            for _ in range(self._wanted(facts)):
                self._start(facts, self._device_order(facts), self._share(facts))
            if self._call.exclusive:
                self._hire_builder(facts, self._left_over(facts), claims=True)
        for facts in choice.builders:
            self._hire_builder(facts, min(_BUILDERS, int(facts.processors)), claims=False)

    def _wanted(self, facts: NodeFacts) -> int:
        """Devices that the node may still have."""
        if not self.roster.serves(facts.node):
            return 0
        fits = int(facts.processors / self._share(facts))
        if self._gpu:
            fits = min(fits, int(facts.gpus))
        wanted = min(facts.sets, fits) if self._call.exclusive else fits
        limit = self._call.devices
        if limit is not None:
            wanted = min(wanted, limit - len(self._of(None)) + len(self._of(facts.node)))
        return max(0, wanted - len(self._of(facts.node)))

    def _left_over(self, facts: NodeFacts) -> int:
        """Builders that a node with devices has cores for: two feed one device well."""
        devices = len(self._of(facts.node))
        cores = facts.cores - devices * self._cores(facts)
        return min(cores, int(facts.processors - devices * self._share(facts)), 2 * devices)

    def _hire_builder(self, facts: NodeFacts, builders: int, *, claims: bool) -> None:
        if builders >= 1 and self.roster.serves(facts.node) and not self._of(facts.node, builds=True):
            call = self._call
            order = Order(
                call.target, call.threads, call.build_factory, builders * claims, builders=builders,
                options=call.build_options,
            )  # fmt: skip
            self._start(facts, order, builders)

    def _cores(self, facts: NodeFacts) -> int:
        """Whole cores that belong to one device of a node."""
        return max(1, min(_WITH_GPU, facts.cores // facts.sets)) if self._gpu else self._call.threads

    def _share(self, facts: NodeFacts) -> float:
        """CPUs of the cluster's count that belong to the cores of one device."""
        if not self._call.exclusive:
            return 1.0
        return max(1.0, float(int(facts.processors * self._cores(facts) / facts.cores)))

    def _of(self, node: str | None, *, builds: bool = False) -> list[_Member]:
        """The devices, or the builders, of a node or of all."""
        return [m for m in self.members.values() if node in (None, m.node.node) and m.builds == builds]

    def _device_order(self, facts: NodeFacts) -> Order:
        call = self._call
        claim = self._cores(facts) if call.exclusive else 0
        return Order(call.target, call.threads, call.factory, claim, self._gpu, call.exclusive, options=call.options)

    def _start(self, facts: NodeFacts, order: Order, cpus: float) -> None:
        self._count += 1
        key = f"{facts.node[:8]}-{self._count}"
        builds = order.factory == self._call.build_factory
        handle = start_host(order, facts.node, cpus)
        self.members[key] = _Member(facts, builds, handle)
        self._after(handle.facts.remote(), partial(self._ready, key), key)

    def _ready(self, key: str, facts: HostFacts) -> None:
        member = self.members.get(key)
        if member is not None and self.pool is not None:
            member.ready = True
            self.pool.joined(key, facts, builds=member.builds)

    def gone(self, key: str, why: str) -> None:
        """A host has ended by itself, or never was ready."""
        assert self.pool is not None
        if key in self.pool.lanes:
            self.pool.lost(key, why)
        elif key in self.members:
            self.dismiss(key, why, refused=False)

    def late(self) -> None:
        """Gives up hosts that do not get ready."""
        now = monotonic()
        for key, member in list(self.members.items()):
            if not member.ready and now > member.deadline:
                self.dismiss(key, f"no host was ready within {START:.0f} s: are its CPUs taken?", refused=False)

    def _after(self, answer: Any, use: Callable[[Any], None], key: str) -> None:
        """Does what an answer brings about, later, by the pool's thread."""
        when_done(
            answer,
            lambda value: self._events.put(partial(use, value)),
            lambda why: self._events.put(partial(self.gone, key, why)),
        )

    # ---- what the pool asks

    def exchange(self, key: str, errands: Sequence[Errand], patience: float) -> None:
        """See `pool.Hosts`."""
        assert self.pool is not None
        ref = self.members[key].handle.exchange.remote(errands, patience)
        self._after(ref, partial(self.pool.returned, key), key)

    def confirm(self, key: str, jobs: Sequence[Job]) -> None:
        """See `pool.Hosts`."""
        assert self.pool is not None
        ref = self.members[key].handle.confirm.remote(list(jobs))
        self._after(ref, partial(self.pool.confirmed, key), key)

    def dismiss(self, key: str, why: str, *, refused: bool) -> None:
        """See `pool.Hosts`."""
        member = self.members.pop(key)
        threading.Thread(target=kill, args=(member.handle,), daemon=True).start()  # it may wait for a dead node
        title = member.node.title
        if refused:
            self.roster.bar(member.node.node, why)
        elif self.roster.strike(member.node.node, why):
            self.tell(f"{title} is set aside, it has lost {self.roster.strikes[member.node.node]} workers: {why}")
        else:
            self.tell(f"a worker on {title} was lost: {why}")
