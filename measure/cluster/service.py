"""The process between a search and its cluster: it runs the pool, hires hosts, and talks to both sides."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Mapping
from functools import partial
from time import monotonic, time
from typing import Any

from ...common.errors import EnvironmentFailure, TilesmithError
from ...targets.target import parse_target
from ..machine import machine_key
from ..process.worker import Link
from .hosts import START, Happening, Hired
from .messages import ClusterReady, Compare, Compared, ConnectRequest, Goodbye, Note, Refused, Results, Submit
from .nodes import NodeFacts, NodeSelection, choose, nothing_fits, own_versions
from .pool import HostPool
from .ray_pool import alive_nodes, connected, first_line, kill, probe_nodes, publish, read_boards, start_board
from .status import status_of

LOOK = 3.0  # seconds from one look at the nodes to the next
PUBLISH = 2.0  # seconds from one status to the next
DESERTED = 60.0  # seconds without any host after which a run is given up


class ClusterService:
    """One call, from `ConnectRequest` to `Goodbye` (a `worker.Handler`)."""

    def handle(self, request: ConnectRequest, link: Link) -> None:
        """Serves a runner until it says goodbye or is gone."""
        try:
            with connected(request):
                _Service(request, link).run()
        except TilesmithError as error:
            link.tell(Refused(error))
        except ConnectionError as error:
            raise SystemExit(f"the connection to the cluster broke: {error}") from None


class _Service:
    """The pool's thread: it runs what happens, one after the other, and talks to the parent."""

    def __init__(self, call: ConnectRequest, link: Link) -> None:
        self._call, self._link = call, link
        self._events: queue.SimpleQueue[Happening] = queue.SimpleQueue()
        self._hosts = Hired(call, self._events)
        self._pool = self._hosts.pool = HostPool(self._hosts, silence=call.silence, tell=self._note)
        self._hosts.tell = self._note
        self._target = parse_target(call.target)
        self._facts: dict[str, NodeFacts] = {}
        self._useful: list[str] = []  # nodes that can measure
        self._told: set[str] = set()
        self._machine = call.machine
        self._open, self._over = False, False
        self._occupied = monotonic()
        self._started = time()
        self._board: Any = None

    def _note(self, text: str) -> None:
        self._link.tell(Note(text))

    def run(self) -> None:
        """Serves until the parent says goodbye. Errors: TargetError, EnvironmentFailure when the cluster is of no use."""
        self._look(alive_nodes())
        choice = self._choose()
        if not choice.devices:
            raise nothing_fits(self._target, self._call.threads, choice.left_out)
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._attend, daemon=True).start()
        try:
            while not self._over:
                self._turn()
        finally:
            for member in self._hosts.members.values():
                kill(member.handle)

    def _turn(self) -> None:
        wait = max(0.0, min(0.5, self._pool.deadline - monotonic()))
        with contextlib.suppress(queue.Empty):
            self._events.get(timeout=wait)()
            while True:
                self._events.get_nowait()()
        self._hosts.late()
        self._pool.step()
        self._say_open()
        finished, compared = self._pool.take(), self._pool.take_confirmed()
        if finished:
            self._link.tell(Results(tuple(finished), self._pool.capacity))
        if compared is not None:
            self._link.tell(Compared(compared))
        self._check_deserted()

    def _say_open(self) -> None:
        if not self._open and self._pool.devices:
            self._open = True
            facts = self._pool.devices[0].facts
            self._link.tell(ClusterReady(facts.machine, facts.ceilings, self._pool.capacity))

    def _check_deserted(self) -> None:
        """Raises EnvironmentFailure when there has been no host for too long."""
        if self._pool.devices:
            self._occupied = monotonic()
        hopeless = not self._hosts.members and not any(self._hosts.roster.serves(node) for node in self._useful)
        if hopeless or monotonic() - self._occupied > DESERTED + START * (not self._open):
            reasons = (f"{self._title(node)}: {why}" for node, why in self._hosts.roster.reasons.items())
            raise EnvironmentFailure(
                "the cluster has no worker left that can measure",
                found="; ".join(reasons) or "all nodes are gone",
                advice="`tilesmith cluster check` tests each node; the same command continues the run",
            )

    def _title(self, node: str) -> str:
        return self._facts[node].title if node in self._facts else node[:8]

    # ---- other threads put what they find into the queue

    def _listen(self) -> None:
        """Hears the parent."""
        try:
            message = None
            while not isinstance(message, Goodbye):
                message = self._link.hear()
                self._events.put(partial(self._obey, message))
        except (EOFError, OSError):
            os._exit(0)  # the parent is gone; Ray ends the actors of a process that is

    def _obey(self, message: Any) -> None:
        match message:
            case Submit(jobs=jobs):
                for job in jobs:
                    self._pool.submit(job)
            case Compare(jobs=jobs):
                self._pool.confirm(jobs)
            case Goodbye():
                self._over = True

    def _attend(self) -> None:
        """Looks at the nodes from time to time, and publishes what goes on: calls that may wait."""
        looked = published = monotonic()
        while not self._over:
            threading.Event().wait(0.5)
            try:
                if monotonic() - looked > LOOK:
                    self._look(alive_nodes())
                    self._events.put(self._meet)
                    looked = monotonic()
                if monotonic() - published > PUBLISH:
                    published = monotonic()
                    with contextlib.suppress(Exception):  # nobody waits for it
                        self._publish()
            except Exception as error:  # the cluster is going away, or coming back
                looked = published = monotonic()
                self._events.put(partial(self._tell_once, f"the cluster does not answer: {first_line(error)}"))

    def _look(self, nodes: Mapping[str, dict[str, Any]]) -> None:
        known = {node: facts for node, facts in self._facts.items() if node in nodes}
        new = {node: about for node, about in nodes.items() if node not in known}
        found = {facts.node: facts for facts in probe_nodes(new, self._call.target, self._call.threads)}
        self._facts = known | found

    def _meet(self) -> None:
        self._choose()

    def _choose(self) -> NodeSelection:
        """Sorts the nodes, hires what is missing, and tells once why a node is left out."""
        choice = choose(self._facts.values(), own_versions(), self._target, self._call.threads, self._machine)
        self._useful = [facts.node for facts in choice.devices]
        if choice.devices:
            self._machine = machine_key(choice.devices[0].machine)
            self._hosts.hire(choice)
            for facts, reason in choice.left_out:
                if facts.processors:
                    self._tell_once(f"{facts.title} measures nothing: {reason}")
        return choice

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._note(text)

    def _publish(self) -> None:
        if self._board is None:
            self._board = start_board(f"board-{os.getpid()}-{int(self._started)}")
        publish(self._board, status_of(self._pool, self._hosts.roster.reasons, self._call.target, self._started))


class Inspector:
    """Answers `tune cluster` (a `worker.Handler`)."""

    def handle(self, request: tuple[str, ConnectRequest], link: Link) -> Any:
        """ "status": the runs on the cluster; "check": the nodes. Errors come as values."""
        what, call = request
        link.stage("ask")
        try:
            with connected(call):
                if what == "status":
                    return read_boards()
                return probe_nodes(alive_nodes(), call.target, call.threads)
        except TilesmithError as error:
            return error
