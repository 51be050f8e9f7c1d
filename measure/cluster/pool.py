"""Many hosts as one runner: who gets which job, and what becomes of jobs whose host is gone.

    submit -> waiting -> (a builder host) -> built -> a device host -> finished

All here is a plain state machine: things happen (`joined`, `returned`, `confirmed`, `lost`), and `step` reacts by asking
the `Hosts`, which answers later by another happening. So it is tested without a cluster, and knows none.

A job is on one host at a time, and whatever a host says about a job that it was relieved of is not heard: none is lost and
none is counted twice. A job that has lost several hosts ends as a failure: most likely it is what ended them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from time import monotonic
from typing import Protocol

from ..process.builder import Built
from ..result import Failure, Job, Measurement, Status
from .host import Errand, HostFacts, Outcome
from .lane import HostLane, Ticket
from .pace import Pacing, normalised

PATIENCE = 1.0  # seconds that a host waits for a first result before it says that it is alive
SILENCE = 60.0  # seconds beyond that after which it is thought to hang
LOSSES = 3  # hosts that a job may lose
AHEAD = 0.3  # seconds of work that a host should hold, ...
DEEPEST = 32  # ... in at most so many jobs


class Hosts(Protocol):
    """The hosts, as the pool asks them. Nothing waits; answers come as happenings."""

    def exchange(self, key: str, errands: Sequence[Errand], patience: float) -> None:
        """Gives errands to a host and asks for what is done: `returned` or `lost` will follow."""
        ...

    def confirm(self, key: str, jobs: Sequence[Job]) -> None:
        """`confirmed` or `lost` will follow."""
        ...

    def dismiss(self, key: str, why: str, *, refused: bool) -> None:
        """Ends a host, however little it listens. `refused`: its node shall have no other."""
        ...


@dataclass
class Contest:
    """A confirmation under way."""

    jobs: Sequence[Job]
    lane: str = ""
    losses: int = 0
    answers: Sequence[tuple[int, Measurement]] | None = None


class HostPool:
    """See the head of this file.

    Args:
        hosts: the hosts.
        silence: seconds after which a host that does not answer is given up.
        tell: called with a sentence when something is worth a person's attention.
    """

    def __init__(
        self,
        hosts: Hosts,
        *,
        silence: float = SILENCE,
        tell: Callable[[str], None] = print,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._hosts, self._silence, self._tell, self._clock = hosts, silence, tell, clock
        self.lanes: dict[str, HostLane] = {}
        self.refused: dict[str, str] = {}  # place -> why its times are not taken
        self._waiting: deque[Ticket] = deque()
        self._built: deque[Ticket] = deque()
        self._suspects: deque[Ticket] = deque()  # their host was lost
        self._finished: list[tuple[int, Measurement]] = []
        self._pacing = Pacing()
        self._anchors = 0
        self._twins = False  # there has been more than one device
        self._contest: Contest | None = None

    # ---- what the caller does

    def submit(self, job: Job) -> None:
        """Takes a job."""
        self._waiting.append(Ticket(job))

    def confirm(self, jobs: Sequence[Job]) -> None:
        """Begins a confirmation, once nothing else is in flight; `take_confirmed` has its end."""
        self._contest = Contest(jobs, answers=None if jobs else [])

    def take(self) -> list[tuple[int, Measurement]]:
        """Gives what has finished since the last call, each result once."""
        done, self._finished = self._finished, []
        return done

    def take_confirmed(self) -> Sequence[tuple[int, Measurement]] | None:
        """The end of the confirmation, if it has come."""
        if self._contest is None or self._contest.answers is None:
            return None
        answers, self._contest = self._contest.answers, None
        return answers

    @property
    def capacity(self) -> int:
        """Says how many jobs keep all hosts busy."""
        return sum(lane.depth for lane in self.lanes.values())

    @property
    def devices(self) -> list[HostLane]:
        """The hosts that measure."""
        return [lane for lane in self.lanes.values() if not lane.builds]

    @property
    def in_flight(self) -> int:
        """Jobs taken that are not finished."""
        return len(self._waiting) + len(self._built) + len(self._suspects) + sum(
            len(lane.held) + sum(ticket.job.number >= 0 for ticket in (*lane.holding.values(), *lane.outgoing))
            for lane in self.lanes.values()
        )  # fmt: skip

    @property
    def deadline(self) -> float:
        """Says when `step` is to be called although nothing has happened."""
        return min((lane.deadline for lane in self.lanes.values()), default=inf)

    # ---- what happens

    def joined(self, key: str, facts: HostFacts, *, builds: bool) -> None:
        """Takes in a host that is ready."""
        self.lanes[key] = HostLane(key, facts, builds, facts.depth)
        self._twins = self._twins or len(self.devices) > 1

    def returned(self, key: str, outcomes: Iterable[tuple[int, Outcome]]) -> None:
        """Takes in the answer of a host."""
        lane = self.lanes.get(key)
        if lane is None:
            return  # it was given up before
        found = list(outcomes)
        self._adapt(lane, len(found))
        lane.asked, lane.deadline = -1.0, inf
        for number, outcome in found:
            ticket = lane.holding.pop(number, None)
            if ticket is None:
                continue
            if isinstance(outcome, Built):
                lane.done += 1
                ticket.built = outcome
                self._built.append(ticket)
            elif lane.builds:
                lane.failed += 1
                self._deliver(ticket, outcome)
            elif number < 0:
                self._pacing.read(lane.gauge, outcome, self._clock())
            else:
                lane.done += 1
                lane.gauge.trials += 1
                lane.failed += not outcome.ok
                self._judge(lane, ticket, outcome)
        self._settle()

    def _adapt(self, lane: HostLane, count: int) -> None:
        """Short jobs are held in greater number, so that the host never waits for a message."""
        spent = self._clock() - lane.asked
        if count and not lane.builds:
            wanted = min(DEEPEST, ceil(AHEAD * count / max(spent, 1e-3)))
            lane.depth = max(lane.facts.depth, min(wanted, 2 * lane.depth))

    def confirmed(self, key: str, answers: Sequence[tuple[int, Measurement]]) -> None:
        """Takes in a host's comparison of the contenders."""
        lane, contest = self.lanes.get(key), self._contest
        if lane is None or contest is None or contest.lane != key:
            return
        lane.asked, lane.deadline = -1.0, inf
        pace = self.pace_of(lane)
        contest.answers = [(number, normalised(measurement, pace)) for number, measurement in answers]

    def lost(self, key: str, why: str) -> None:
        """A host is gone: what it had is given to others."""
        lane = self.lanes.get(key)
        if lane is not None:
            self._remove(lane, why, refused=False)

    def _remove(self, lane: HostLane, why: str, *, refused: bool) -> None:
        del self.lanes[lane.key]
        self._hosts.dismiss(lane.key, why, refused=refused)
        if self._contest is not None and self._contest.lane == lane.key:
            self._contest.lane, self._contest.losses = "", self._contest.losses + 1
        for ticket in lane.holding.values():
            ticket.losses += 1
            if ticket.job.number >= 0:
                self._again(ticket, f"{lane.facts.place}: {why}")
        self._back(ticket for ticket in lane.outgoing if ticket.job.number >= 0)
        for ticket, measurement in lane.held:  # measured, but nobody will ever know how fast the device was
            if refused and measurement.times:
                self._back([ticket])
            else:
                self._deliver(ticket, measurement)
        self._settle()

    def _again(self, ticket: Ticket, why: str) -> None:
        if ticket.losses < LOSSES:
            self._back([ticket])
        else:
            message = f"{ticket.losses} workers were lost while they had it, the last one {why}"
            self._deliver(ticket, Measurement(Status.CRASH, failure=Failure("runner", message)))

    def _back(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            queue = self._suspects if ticket.losses else self._built if ticket.built else self._waiting
            queue.appendleft(ticket)

    # ---- what is believed

    def _judge(self, lane: HostLane, ticket: Ticket, measurement: Measurement) -> None:
        if self._twins:
            self._pacing.offer(ticket.job, measurement, self._clock())
        lane.held.append((ticket, measurement))

    def _settle(self) -> None:
        """Gives out what was held, as far as it is known how far it can be believed."""
        self._pacing.settle((lane.gauge for lane in self.devices), self._clock())
        for lane in self.devices:
            pace = self._pace(lane)
            if pace is not None:
                held, lane.held = lane.held, []
                for ticket, measurement in held:
                    self._believe(lane, ticket, measurement, pace)
            self._check_twin(lane)

    def _pace(self, lane: HostLane) -> float | None:
        """Returns what times of a device are divided by; None: wait until it is known. Alone, or without an anchor: as it
        says."""
        pace = self._pacing.pace(lane.gauge)
        return 1.0 if pace is None and (self._pacing.anchor is None or len(self.devices) == 1) else pace

    def pace_of(self, lane: HostLane) -> float:
        """The same for people: 1.0 where it is not known."""
        return self._pacing.pace(lane.gauge) or 1.0

    def _believe(self, lane: HostLane, ticket: Ticket, measurement: Measurement, pace: float) -> None:
        if lane.gauge.steady or ticket.again or len(self.devices) == 1 or not measurement.times:
            self._deliver(ticket, normalised(measurement, pace))
        else:
            ticket.again = True
            self._back([ticket])

    def _check_twin(self, lane: HostLane) -> None:
        why = self._pacing.why_unlike(lane.gauge)
        if why and len(self.devices) > 1 and lane.key in self.lanes:
            self.refused[lane.facts.place] = why
            self._tell(f"{lane.facts.place} is not used any more: {why}")
            for ticket in lane.holding.values():
                ticket.losses -= 1  # the job is not at fault
            self._remove(lane, why, refused=True)

    def _deliver(self, ticket: Ticket, measurement: Measurement) -> None:
        built = ticket.built
        if built is not None and not measurement.builder:
            measurement = replace(measurement, builder=built.builder, compile_seconds=built.seconds)
        self._finished.append((ticket.job.number, measurement))

    # ---- who gets what

    def step(self) -> None:
        """Gives up silent hosts, and hands out what waits. To be called after every happening and at the deadline."""
        now = self._clock()
        for lane in [lane for lane in self.lanes.values() if now > lane.deadline]:
            self.lost(lane.key, f"it has not answered for {now - lane.asked:.0f} s")
        self._settle()
        free = [lane for lane in self.lanes.values() if lane.free]
        self._ask_for_readings([lane for lane in free if not lane.builds], now)
        self._hand_out([lane for lane in free if lane.builds], [lane for lane in free if not lane.builds])
        for lane in free:
            if lane.outgoing or lane.holding:
                self._send(lane, now)
        self._run_contest(now)

    def _ask_for_readings(self, devices: Sequence[HostLane], now: float) -> None:
        for lane in devices:
            if self._pacing.anchor and len(self.devices) > 1 and self._pacing.due(lane.gauge, now):
                self._anchors += 1
                lane.gauge.asked = True
                lane.outgoing.append(Ticket(replace(self._pacing.anchor, number=-self._anchors)))

    def _hand_out(self, builders: Sequence[HostLane], devices: Sequence[HostLane]) -> None:
        elsewhere = any(lane.builds for lane in self.lanes.values())
        steady = [lane for lane in devices if lane.gauge.steady]
        usable = steady or (devices if not any(lane.gauge.steady for lane in self.devices) else [])
        measuring = self._hand_out_suspects(usable)
        while ticket_lane := self._next(measuring, builds_here=not elsewhere):
            ticket, lane = ticket_lane
            lane.outgoing.append(ticket)
        room = sum(lane.depth for lane in self.devices) - len(self._built)
        while self._waiting and room > 0 and (builder := _least_loaded(builders)):
            builder.outgoing.append(self._waiting.popleft())
            room -= 1

    def _hand_out_suspects(self, devices: Sequence[HostLane]) -> list[HostLane]:
        """Each gets a device alone. Returns those that may have other jobs: some are left to run empty for suspects."""
        ours = sorted((lane for lane in devices if not lane.suspect), key=lambda lane: lane.load)
        kept = ours[: min(len(self._suspects), max(1, len(self.devices) // 2))]
        for lane in kept:
            if not lane.load:
                lane.outgoing.append(self._suspects.popleft())
        return ours[len(kept) :]

    def _next(self, devices: Sequence[HostLane], *, builds_here: bool) -> tuple[Ticket, HostLane] | None:
        """The next job for a device: a built one; a device that has nothing builds for itself."""
        lane = _least_loaded(devices)
        if lane is None:
            return None
        if self._built:
            return self._built.popleft(), lane
        if self._waiting and (builds_here or lane.load == 0):
            return self._waiting.popleft(), lane
        return None

    def _send(self, lane: HostLane, now: float) -> None:
        tickets, lane.outgoing = lane.outgoing, []
        lane.holding.update({ticket.job.number: ticket for ticket in tickets})
        lane.asked, lane.deadline = now, now + PATIENCE + self._silence
        pace = self.pace_of(lane)
        errands = [Errand(_at_pace(ticket.job, pace), None if lane.builds else ticket.built) for ticket in tickets]
        self._hosts.exchange(lane.key, errands, PATIENCE)

    def _run_contest(self, now: float) -> None:
        contest = self._contest
        if contest is None or contest.lane or contest.answers is not None or self.in_flight:
            return
        if contest.losses >= LOSSES:
            failure = Failure("runner", f"{contest.losses} workers were lost while they compared the contenders")
            contest.answers = [(job.number, Measurement(Status.CRASH, failure=failure)) for job in contest.jobs]
            return
        lane = min((lane for lane in self.devices if lane.free), key=self._doubt, default=None)
        if lane is not None:
            contest.lane = lane.key
            lane.asked, lane.deadline = now, now + self._silence * (2 + len(contest.jobs))
            self._hosts.confirm(lane.key, contest.jobs)

    def _doubt(self, lane: HostLane) -> tuple[bool, float, int]:
        """Contenders are compared on the device that is nearest to the median and has done most."""
        return not lane.gauge.steady, abs(self.pace_of(lane) - 1), -lane.done


def _least_loaded(lanes: Sequence[HostLane]) -> HostLane | None:
    """The lane with the most room, if any has room."""
    lane = min(lanes, key=lambda lane: lane.load / lane.depth, default=None)
    return lane if lane is not None and lane.load < lane.depth else None


def _at_pace(job: Job, pace: float) -> Job:
    """Limits are times of the median device."""
    return job if job.limit is None or pace == 1.0 else replace(job, limit=job.limit * pace)
