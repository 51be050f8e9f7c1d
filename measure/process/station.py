"""A place where children of one kind follow each other: it gives them work, watches the clock and replaces them.

Works are answered in the order they were given. Whatever a child does, each work ends in exactly one event: `Answered`,
`Lost` (the child ended while it was busy with it) or `Returned` (it was only waiting behind such a one: give it again).
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Any

from ...common.errors import EnvironmentFailure
from ..result import Status
from .child import Child, Ending
from .worker import Answer, Go, QuietPlease, Ready, StageBegun

_STARTS = 3  # children that may fail to start, one after the other, before the machine is at fault


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A request and the seconds that its stages may take; `tag` is the giver's own."""

    tag: Any
    request: Any
    limits: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Answered:
    """A work that was done."""

    work: WorkItem
    value: Any


@dataclass(frozen=True, slots=True)
class Lost:
    """A work whose child ended, in that stage, at that item."""

    work: WorkItem
    stage: str
    item: int
    ending: Ending


@dataclass(frozen=True, slots=True)
class Returned:
    """A work that was not begun."""

    work: WorkItem


Event = Answered | Lost | Returned


@dataclass
class Station:
    """See the head of this file.

    Attributes:
        start: makes a new child.
        start_limit: seconds from a child's start until it is ready.
        lifetime: works after which a child is replaced (memory of a compiler only grows).
        worn: whether a child is to be replaced after this answer.
        wants_quiet: the child waits for `go`.
    """

    start: Callable[[], Child]
    start_limit: float
    lifetime: int
    worn: Callable[[Any], bool]
    wants_quiet: bool = field(default=False, init=False)
    _works: deque[WorkItem] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        self._failed_starts = 0
        self._renew()

    def _renew(self) -> None:
        self.child = self.start()
        self._ready = False
        self._done = 0
        self._paused_at: float | None = None
        self.wants_quiet = False
        self._enter("start", 0, self.start_limit)

    def _enter(self, stage: str, item: int, limit: float) -> None:
        self._stage, self._item, self._limit = stage, item, limit
        self.deadline = monotonic() + limit

    @property
    def load(self) -> int:
        """Works that it has and has not answered."""
        return len(self._works)

    @property
    def works(self) -> tuple[WorkItem, ...]:
        """Gives the works that are waiting or under way, in their order."""
        return tuple(self._works)

    @property
    def current(self) -> WorkItem:
        """The work that the child is busy with."""
        return self._works[0]

    @property
    def paused(self) -> bool:
        """Says whether the child is stopped."""
        return self._paused_at is not None

    def give(self, work: WorkItem) -> None:
        """One more work. It may come before the child is ready."""
        self._works.append(work)
        if self._ready and len(self._works) == 1:
            self._begin()  # first, so that a deadline stands whatever interrupts us
        self.child.send(work.request)

    def _begin(self) -> None:
        """The child has nothing before the first of its works: its clock starts."""
        if self._works:
            self._enter("begin", 0, max(self._works[0].limits.values()))
        else:
            self._enter("idle", 0, inf)

    def go(self) -> None:
        """Tells the child that the machine is quiet."""
        self.wants_quiet = False
        self._enter("time", self._item, self._works[0].limits["time"])
        self.child.send(Go())

    def pause(self) -> None:
        """Stops the child; its clock stops too."""
        if self._paused_at is None:
            self._paused_at = monotonic()
            self.child.pause()

    def resume(self) -> None:
        """Lets the child go on."""
        if self._paused_at is not None:
            self.deadline += monotonic() - self._paused_at
            self._paused_at = None
            self.child.resume()

    def poll(self) -> list[Event]:
        """Returns what has happened since the last call; never waits. Raises EnvironmentFailure when children do not start."""
        events: list[Event] = []
        child = self.child
        for message in child.messages():
            events += self._hear(message)
            if self.child is not child:
                return events  # what else the old one said is of works that were taken from it
        if child.ended:
            events += self._bury()
        elif self._paused_at is None and monotonic() > self.deadline:
            # Its end is seen at the next call, like any other.
            child.kill(Ending(Status.TIMEOUT, f"{self._stage}: not done after {self._limit:g} s"))
            self.deadline = inf
        return events

    def wait(self) -> Event:
        """Waits for the next event; there must be a work."""
        events: list[Event] = []
        while not events:
            wait_for([self], inf)
            events = self.poll()
        return events[0]

    def _hear(self, message: Any) -> list[Event]:
        match message:
            case Ready():
                self._ready, self._failed_starts = True, 0
                self._begin()
            case StageBegun(name=name, item=item):
                self._enter(name, item, self._works[0].limits[name])
            case QuietPlease():
                self.wants_quiet, self.deadline = True, inf
            case Answer(value=value):
                return self._take(value)
        return []

    def _take(self, value: Any) -> list[Event]:
        events: list[Event] = [Answered(self._works.popleft(), value)]
        self._done += 1
        if self.worn(value) or self._done >= self.lifetime:
            return events + self._replace()
        self._begin()
        return events

    def _replace(self) -> list[Event]:
        waiting: list[Event] = [Returned(work) for work in self._works]
        self._works.clear()
        self.child.close()
        self._renew()
        return waiting

    def _bury(self) -> list[Event]:
        ending = self.child.ending()
        if not self._ready:
            self._failed_starts += 1
            if self._failed_starts >= _STARTS:
                raise EnvironmentFailure(
                    "a child process does not start",
                    found=ending.message,
                    advice="if the text shown does not explain it, please report it",
                )
            return self._replace()
        events: list[Event] = []
        if self._works:
            events.append(Lost(self._works.popleft(), self._stage, self._item, ending))
        return events + self._replace()

    def close(self) -> None:
        """Ends the child."""
        self._works.clear()
        self.child.close()


def wait_for(stations: Sequence[Station], end: float, also: Sequence[int] = ()) -> None:
    """Waits until one of them, or of `also`, descriptors, has something to say, or a deadline of theirs or `end` (a time of
    `monotonic`) has come."""
    poller = select.poll()
    for descriptor in also:
        poller.register(descriptor, select.POLLIN)
    for station in stations:
        for descriptor in station.child.descriptors:
            poller.register(descriptor, select.POLLIN)
    until = min(end, *(station.deadline for station in stations if not station.paused))
    poller.poll(max(0.0, min(until - monotonic(), 1.0)) * 1000)


def wait_readable(descriptors: Sequence[int]) -> None:
    """Waits until there is something to read from one of them."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    poller.poll()


def answer_of(child: Child, heard: Callable[[StageBegun], None] | None = None) -> Answer | None:
    """Waits for the answer of a child that was given one request; None where it ended before. `heard`: is told what it does
    meanwhile."""
    while not child.ended:
        wait_readable(child.descriptors)
        for message in child.messages():
            if isinstance(message, Answer):
                return message
            if heard is not None and isinstance(message, StageBegun):
                heard(message)
    return None
