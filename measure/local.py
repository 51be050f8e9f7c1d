"""Trials on this machine: builders build ahead, a timer for each device times, and nothing that a candidate does reaches the
caller.

    submit -> builders -> built -> timers -> finished -> collect

The processors of this machine are one device, each of its GPUs is another.

There is no thread here: `submit`, `collect` and `tend` move the works along. A clock is read only inside `collect` and `tend`,
so the caller itself never disturbs it, while builders go on building between the calls. When the timer is about to read the
clock, builders are stopped (SIGSTOP) until the kernel's threads have the cores for themselves, and so is the child in which a
search thinks (tuner/thinking/thinker.py); loading, preparing and checking go on beside them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import randbits
from time import monotonic
from typing import TYPE_CHECKING, Any

from ..common.errors import ArgumentError
from ..runtime.devices.choose import CPU, device_name
from ..targets.host import usable_cores
from ..targets.target import names_gpu, parse_target
from .given import keep
from .process.builder import Built
from .process.builders import DEPTH, Builders
from .process.child import Child, child_setup
from .process.environment import builder_environment, timer_environment, visible_devices
from .process.station import Answered, Event, Lost, Station, WorkItem, wait_for
from .requests import ConfirmRequest, ReferenceKernel, TimeLimits, TimeRequest, default_limits
from .result import DEVICE, AtEnd, Beside, Failure, Job, Measurement, Purpose, Status
from .timing.leaders import Leaders
from .timing.reference_kernels import ReferenceKernels, TaskKey, task_of

if TYPE_CHECKING:
    from ..targets.ceilings import Ceilings

BUILDER = f"{__package__}.process.builder:Builder"
TIMER = f"{__package__}.timing.timer:Timer"
_TIMER_LIFETIME = 400  # trials
_NICE = 5  # builders give way to the timer while it checks


@dataclass(frozen=True, slots=True)
class _Contender:
    """A built job, on its way to the timer; `again`: its times could not be trusted, or its timer was killed from outside, and
    this is its second chance."""

    job: Job
    built: Built
    again: bool = False

    def request(self, limit: float | None, reference: ReferenceKernel | None = None) -> TimeRequest:
        yardstick = self.job.purpose is Purpose.YARDSTICK
        inputs = keep(self.job.inputs)
        return TimeRequest(
            self.job.program, self.built.artifact, self.job.threads, limit, reference, yardstick, inputs, self.job.cold
        )  # fmt: skip

    def finished(self, measurement: Measurement) -> Measurement:
        seconds = self.built.seconds + measurement.compile_seconds  # a GPU's driver compiles too
        return replace(measurement, compile_seconds=seconds, builder=self.built.builder)


@dataclass(slots=True)
class _Contest:
    """The contenders of one `confirm` by number: those that run, and those that are done."""

    running: dict[int, _Contender] = field(default_factory=dict)
    done: dict[int, Measurement] = field(default_factory=dict)

    def finish(self, number: int, measurement: Measurement) -> None:
        contender = self.running.pop(number)
        self.done[number] = contender.finished(measurement)


class LocalRunner(AtEnd):
    """Child processes on this machine (implements `measure.result.Runner`).

    Args:
        target: the target's text, for which builders warm up.
        threads: threads of the kernels.
        builders: builder children; default: one for each core, at most eight.
        ceilings: what the machine can do; a kernel far above is reported as `unstable`. None: not checked.
        limits: how long and how much a candidate may take; default: `default_limits()`.
        builder, timer: handlers of the children, "module:Class".
        seed: of the data and of the points that are checked; default: another one each time, so that what one misses the
            next one may find.

    Raises:
        EnvironmentFailure: from `collect` and `confirm`, when children do not start.
    """

    name = "local"

    def __init__(
        self,
        target: str,
        threads: int,
        *,
        builders: int | None = None,
        ceilings: Ceilings | None = None,
        limits: TimeLimits | None = None,
        builder: str = BUILDER,
        timer: str = TIMER,
        seed: int | None = None,
    ) -> None:
        self._cores = usable_cores()
        count = min(8, self._cores) if builders is None else builders
        if threads < 1 or count < 1:
            raise ArgumentError("a runner needs at least one thread and one builder", found=f"{threads}, {count}")
        limits = self._limits = limits or default_limits()
        self._built: deque[_Contender] = deque()
        self._finished: deque[tuple[int, Measurement]] = deque()
        self._best: dict[TaskKey, float] = {}
        self._references, self._leaders = ReferenceKernels(), Leaders()
        self._contest: _Contest | None = None
        self._quiet: set[int] = set()  # which timers read the clock
        self._beside: Beside | None = None  # what is stopped meanwhile, as builders are
        self._closed = False
        devices = visible_devices(target)
        self.capacity = count * DEPTH + count + 1 + len(devices)  # builders busy, a few artifacts in reserve
        start_builder = _starter(builder, {"target": target}, builder_environment(), limits.build_memory, _NICE)
        alone = len(devices) == 1
        drawn = randbits(32) if seed is None else seed
        options = {"ceilings": ceilings, "device": _device_of(target), "alone": alone, "seed": drawn}
        self.workers = (
            f"{count} builder{'' if count == 1 else 's'}, {len(devices)} timer{'' if len(devices) == 1 else 's'}"
        )
        self._timers: list[Station] = []
        for shown in devices:
            # a GPU's driver reserves addresses for all its memory, which no limit of a process should count
            environment, memory = {**timer_environment(threads), **shown}, 0 if shown else limits.run_memory
            start_timer = _starter(timer, options, environment, memory, 0)
            self._timers.append(Station(start_timer, limits.start, _TIMER_LIFETIME, _wears_out))
        self._times_here = not devices[0]  # the clock and the builders share the processors
        self._drifts = alone and self._times_here  # and its drift is taken out
        self._builders = Builders(start_builder, count, limits.start, limits.of_build())

    def submit(self, job: Job, built: Built | None = None) -> None:
        """Takes a job, which may have been built elsewhere; returns at once."""
        if self._closed:
            raise ArgumentError("this runner was closed", advice="make a new one")
        if built is not None:
            self._built.append(_Contender(job, built))
            return
        self._builders.submit(job)
        self._feed_builders()

    def go_on_from(self, job: Job, seconds: float) -> None:
        """See `Continuing`: trials of its task begin when it is built. What was timed here already stays the reference."""
        if self._drifts and not self._closed and self._references.of(job) is None:
            self._builders.submit(job, first=True)
            self._references.expect(job, seconds)

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        """Finished jobs as (number, measurement); see `Runner.collect`."""
        end = float("inf") if timeout is None else monotonic() + timeout
        while not self._closed:
            self._step(0.0 if self._enough() or not self._in_flight() else end)
            if self._enough() or not self._in_flight() or monotonic() >= end:
                break
        done = list(self._finished)
        self._finished.clear()
        return done

    def tend(self, beside: Beside, done: Callable[[], bool]) -> None:
        """See `Tended`: what chooses the next jobs thinks beside the trials, so that the timer need not wait for it."""
        self._beside = beside
        while not self._closed and (self._quiet or not done()):
            self._step(float("inf"), () if self._quiet else beside.descriptors)

    def _enough(self) -> bool:
        """Says whether the caller may go on: while the clock is running its own work would be in the way."""
        return bool(self._finished) and not self._quiet

    def _in_flight(self) -> bool:
        return bool(self._built or self._builders.load or any(timer.load for timer in self._timers))

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        """Measures contenders again, interleaved; see `Runner.confirm`. What is in flight ends first."""
        while self._in_flight():
            self._step(float("inf"))
        contest = self._contest = _Contest()
        try:
            for job in jobs:
                built = self._leaders.of(job)
                if built is None:
                    self._builders.submit(job)
                else:
                    contest.running[job.number] = _Contender(job, built)
            while self._in_flight():
                self._step(float("inf"))
        finally:
            self._contest = None
        while contest.running:  # whoever ends the timer drops out; the others begin again
            self._run(contest)
        return [(job.number, contest.done[job.number]) for job in jobs]

    def _run(self, contest: _Contest) -> None:
        items = tuple(contender.request(None) for contender in contest.running.values())
        timer = self._timers[0]  # one device for all that is compared
        timer.give(WorkItem(contest, ConfirmRequest(items), self._limits.of_run(items=len(items))))
        while timer.load:
            self._step(float("inf"))

    # ---- one step: give out work, wait for something to happen, take what is done

    def _step(self, end: float, also: Sequence[int] = ()) -> None:
        """Waits until something happens, there is something to read from `also`, or `end`, a time of `monotonic`, has come."""
        self._feed_builders()
        self._feed_timers()
        wait_for([*self._timers, *self._builders.stations], end, also)
        for job, outcome in self._builders.poll():
            self._after_build(job, outcome)
        for place, timer in enumerate(self._timers):
            for event in timer.poll():
                self._end_quiet(place)
                self._after_run(event)
            if timer.wants_quiet:
                self._begin_quiet(place)
        self._feed_builders()
        self._feed_timers()

    def _feed_builders(self) -> None:
        room = self.capacity - 1 - len(self._built) - self._builders.busy
        self._builders.feed(max(room, 1) if self._waits() else room)

    def _after_build(self, job: Job, outcome: Built | Measurement) -> None:
        if self._references.claims(job, outcome):
            return
        if isinstance(outcome, Measurement):
            self._finish(job, outcome)
        elif self._contest is not None:
            self._contest.running[job.number] = _Contender(job, outcome)
        else:
            self._built.append(_Contender(job, outcome))

    def _finish(self, job: Job, measurement: Measurement) -> None:
        if self._contest is not None:
            self._contest.done[job.number] = measurement
            return
        if measurement.ok:
            task = task_of(job)
            self._best[task] = min(measurement.seconds, self._best.get(task, measurement.seconds))
        self._finished.append((job.number, measurement))

    def _feed_timers(self) -> None:
        for timer in self._timers:
            if self._built and not timer.load and not self._waits():
                contender = self._built.popleft()
                limit, reference = self._limit_of(contender.job), self._references.of(contender.job)
                timer.give(WorkItem(contender, contender.request(limit, reference), self._limits.of_run(limit)))

    def _waits(self) -> bool:
        """Says whether the reference of the next contender is still being built."""
        return bool(self._built) and any(map(self._builders.holds, self._references.coming(self._built[0].job)))

    def _limit_of(self, job: Job) -> float | None:
        """The best time known now; the one in the job is as old as the job."""
        if job.limit is None:
            return None
        return min(job.limit, self._best.get(task_of(job), job.limit))

    def _begin_quiet(self, place: int) -> None:
        """Leaves the kernel's threads the cores they need, and lets the timer read the clock."""
        timer = self._timers[place]
        if self._times_here:
            self._quiet.add(place)
            self._builders.pause(keep=max(0, self._cores - _threads_of(timer)))
            if self._beside is not None:
                self._beside.pause()
        timer.go()

    def _end_quiet(self, place: int) -> None:
        self._quiet.discard(place)
        if not self._quiet:
            self._builders.resume()
            if self._beside is not None:
                self._beside.resume()

    def _after_run(self, event: Event) -> None:
        tag = event.work.tag
        if isinstance(tag, _Contest):
            self._after_contest(tag, event)
        elif isinstance(event, Answered) and event.value.status is Status.UNSTABLE and not tag.again:
            self._built.append(replace(tag, again=True))  # most likely the machine was busy for a moment
        elif isinstance(event, Answered):
            if self._drifts:
                self._references.learn(tag.job, tag.built, event.value)
            self._leaders.learn(tag.job, tag.built, event.value)
            self._finish(tag.job, tag.finished(event.value))
        elif isinstance(event, Lost) and event.ending.shot and not tag.again:
            self._built.append(replace(tag, again=True))
        elif isinstance(event, Lost) and event.item == 0:
            self._finish(tag.job, tag.finished(_lost(event)))
        else:  # it was not begun, or it was its reference that ended the timer
            if isinstance(event, Lost):
                self._references.drop(tag.job)
            self._built.appendleft(tag)

    def _after_contest(self, contest: _Contest, event: Event) -> None:
        numbers = list(contest.running)
        if isinstance(event, Answered):
            for number, measurement in zip(numbers, event.value, strict=True):
                contender = contest.running[number]
                if _lost_device(measurement) and not contender.again:
                    contest.running[number] = replace(contender, again=True)
                else:
                    contest.finish(number, measurement)
        elif isinstance(event, Lost):
            number = numbers[event.item]
            if event.ending.shot and not contest.running[number].again:
                contest.running[number] = replace(contest.running[number], again=True)
            else:
                contest.finish(number, _lost(event))

    @property
    def children(self) -> list[int]:
        """Process ids of all children, the timers' first."""
        return [station.child.pid for station in (*self._timers, *self._builders.stations)]

    def close(self) -> None:
        """Ends all children; what was in flight is gone."""
        if not self._closed:
            self._closed = True
            self._builders.close()
            for timer in self._timers:
                timer.close()


def _starter(
    handler: str, options: Mapping[str, Any], environment: Mapping[str, str], memory: int, nice: int
) -> Callable[[], Child]:
    return lambda: Child(child_setup(handler, options, memory, nice), environment)


def _threads_of(timer: Station) -> int:
    """Says how many threads the kernels have that a timer is busy with."""
    tag = timer.current.tag
    contenders = [tag] if isinstance(tag, _Contender) else tag.running.values()
    return max(contender.job.threads for contender in contenders)


def _device_of(target: str) -> str:
    return device_name(parse_target(target)) if names_gpu(target) else CPU


def _wears_out(answer: Any) -> bool:
    """Says whether a timer is replaced after this answer: a kernel that was wrong may have written anywhere, and so may what
    broke its device."""
    ends = answer if isinstance(answer, tuple) else (answer,)
    harmless = (Status.OK, Status.UNSTABLE, Status.COMPILE_ERROR, Status.OUT_OF_MEMORY)
    return any(end.status not in harmless or _lost_device(end) for end in ends)


def _lost_device(end: Measurement) -> bool:
    """Says whether a trial found its device broken by something before it."""
    return end.failure is not None and end.failure.stage == DEVICE


def _lost(event: Lost) -> Measurement:
    return Measurement(event.ending.status, failure=Failure(event.stage, event.ending.message))
