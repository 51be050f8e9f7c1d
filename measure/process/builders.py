"""Several builder children that build ahead, as one: jobs go in, artifacts come out.

The first child starts at once, each further one when those that are there have all that they hold ahead: a few candidates cost
the start of one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from ..result import Failure, Job, Measurement
from .builder import Built
from .child import Child, Ending
from .station import Answered, Event, Lost, Returned, Station, WorkItem

DEPTH = 2  # jobs a builder holds: one it works on, one so that it need not wait for us
LIFETIME = 500  # builds after which a builder is replaced

Outcome = tuple[Job, Built | Measurement]


class Builders:
    """Several builder children that build ahead, as one.

    Args:
        start: makes a builder child.
        count: how many there are at most.
        start_limit: seconds within which a child must be ready.
        limits: seconds for each stage of a build.
    """

    def __init__(self, start: Callable[[], Child], count: int, start_limit: float, limits: Mapping[str, float]) -> None:
        self._start, self._count = partial(Station, start, start_limit, LIFETIME, lambda _: False), count
        self.stations = [self._start()]
        self._running = count  # that may run now
        self._limits = limits
        self._waiting: deque[Job] = deque()
        self._shot: set[int] = set()  # jobs whose child somebody killed: they have a second chance

    @property
    def load(self) -> int:
        """Jobs taken that have not come out."""
        return len(self._waiting) + self.busy

    @property
    def busy(self) -> int:
        """Counts the jobs that children hold."""
        return sum(station.load for station in self.stations)

    def submit(self, job: Job, *, first: bool = False) -> None:
        """Takes a job; `feed` gives it to a child. `first`: before all that wait."""
        if first:
            self._waiting.appendleft(job)
        else:
            self._waiting.append(job)

    def holds(self, number: int) -> bool:
        """Says whether the job of this number was taken and has not come out."""
        held = (work.tag for station in self.stations for work in station.works)
        return any(job.number == number for job in (*held, *self._waiting))

    def feed(self, room: int) -> None:
        """Gives waiting jobs to children, at most as many as `room` says."""
        while self._waiting and room > 0:
            station = min((s for s in self.stations if not s.paused), key=lambda s: s.load, default=None)
            if station is None or station.load >= DEPTH:
                if len(self.stations) >= min(self._count, self._running):
                    return
                station = self._start()
                self.stations.append(station)
            job = self._waiting.popleft()
            station.give(WorkItem(job, job, self._limits))
            room -= 1

    def poll(self) -> list[Outcome]:
        """Returns what has come out since the last call; never waits."""
        return [out for station in self.stations for event in station.poll() for out in self._after(event)]

    def _after(self, event: Event) -> list[Outcome]:
        job: Job = event.work.tag
        match event:
            case Returned():
                self._waiting.appendleft(job)
                return []
            case Lost(ending=Ending(shot=True)) if job.number not in self._shot:
                self._shot.add(job.number)
                self._waiting.appendleft(job)
                return []
            case Lost(stage=stage, ending=ending):
                return [(job, Measurement(ending.status, failure=Failure(stage, ending.message)))]
            case Answered(value=value):
                return [(job, value)]

    def pause(self, keep: int) -> None:
        """Stops all but `keep` children."""
        self._running = keep
        for station in self.stations[keep:]:
            station.pause()

    def resume(self) -> None:
        """Lets all children go on."""
        self._running = self._count
        for station in self.stations:
            station.resume()

    def close(self) -> None:
        """Ends the children and forgets the jobs."""
        self._waiting.clear()
        for station in self.stations:
            station.close()
