"""The pool as a state machine: hosts come, go, hang, lie and drift, and the clock is ours."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from contracts.measure_fakes import fake_job
from tilesmith.measure.cluster.host import Errand, HostFacts
from tilesmith.measure.cluster.pool import LOSSES, HostPool
from tilesmith.measure.process.builder import Built
from tilesmith.measure.result import Job, Measurement, Purpose, Status


class FakeHosts:
    """Writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: dict[str, list[Errand]] = {}
        self.confirming: dict[str, Sequence[Job]] = {}
        self.dismissed: list[tuple[str, bool]] = []
        self.sent = 0

    def exchange(self, key: str, errands: Sequence[Errand], patience: float) -> None:
        assert key not in self.asked, "one message at a time"
        self.sent += 1
        self.asked[key] = list(errands)

    def confirm(self, key: str, jobs: Sequence[Job]) -> None:
        self.confirming[key] = jobs

    def dismiss(self, key: str, why: str, *, refused: bool) -> None:
        self.asked.pop(key, None)
        self.dismissed.append((key, refused))


class World:
    """A pool with a hosts of our own and a clock that stands still until it is told."""

    def __init__(self, **devices: float) -> None:
        self.now = 100.0
        self.hosts = FakeHosts()
        self.said: list[str] = []
        self.pool = HostPool(self.hosts, silence=10.0, tell=self.said.append, clock=lambda: self.now)
        self.speed = devices
        self.held: dict[str, list[Errand]] = {}
        for key in devices:
            self.join(key)

    def join(self, key: str, *, builds: bool = False, depth: int = 2) -> None:
        self.pool.joined(key, HostFacts("{}", f"host {key}", "", depth, 1), builds=builds)

    def numbers(self, key: str) -> list[int]:
        return [errand.job.number for errand in self.hosts.asked.get(key, [])]

    def answer(self, key: str, status: Status = Status.OK, count: int | None = None) -> None:
        """The host does all that it has, or the first few."""
        work = self.held.setdefault(key, [])
        work += self.hosts.asked.pop(key)
        done = [work.pop(0) for _ in range(len(work) if count is None else count)]
        self.now += 0.1
        self.pool.returned(key, [(e.job.number, self.measure(key, e.job, status)) for e in done])
        self.pool.step()

    def measure(self, key: str, job: Job, status: Status) -> Measurement:
        seconds = float(job.config.get("seconds", 1e-3)) * self.speed.get(key, 1.0)
        return Measurement(status, (seconds,) if status is Status.OK else ())

    def run(self, jobs: Sequence[Job]) -> dict[int, Measurement]:
        """All to the end."""
        for job in jobs:
            self.pool.submit(job)
        self.pool.step()
        done: dict[int, Measurement] = {}
        for _ in range(1000):
            for key in list(self.hosts.asked):
                if key in self.hosts.asked:
                    self.answer(key)
            for number, measurement in self.pool.take():
                assert number not in done
                done[number] = measurement
            if len(done) == len(jobs):
                return done
        pytest.fail(f"{len(done)} of {len(jobs)} came back")


def jobs(count: int, first: int = 0) -> list[Job]:
    return [fake_job(number) for number in range(first, first + count)]


def test_jobs_are_spread_and_come_back_once() -> None:
    world = World(a=1.0, b=1.0)
    for job in jobs(3):
        world.pool.submit(job)
    world.pool.step()
    assert sorted(map(len, world.hosts.asked.values())) == [1, 2], (
        "two hosts share, and no host has more than its depth"
    )
    assert sorted(world.numbers("a") + world.numbers("b")) == [0, 1, 2]


def test_every_job_comes_back_once() -> None:
    world = World(a=1.0, b=1.0)
    assert sorted(world.run(jobs(30))) == list(range(30))
    assert world.pool.in_flight == 0


def test_nobody_is_asked_for_nothing() -> None:
    world = World(a=1.0)
    world.pool.step()
    assert world.hosts.sent == 0
    world.run(jobs(1))
    world.pool.step()
    assert world.hosts.asked == {}


def test_what_a_lost_host_had_goes_elsewhere_and_its_late_answer_is_not_heard() -> None:
    world = World(a=1.0, b=1.0)
    for job in jobs(2):
        world.pool.submit(job)
    world.pool.step()
    lost = world.numbers("a")
    world.pool.lost("a", "its node is gone")
    world.pool.step()
    world.pool.returned("a", [(number, Measurement(Status.OK, (1.0,))) for number in lost])
    assert world.pool.take() == [] and world.hosts.dismissed == [("a", False)]
    world.answer("b")
    world.answer("b")
    assert sorted(n for n, _ in world.pool.take()) == [0, 1]


def test_an_answer_about_a_job_that_it_does_not_have_is_not_heard() -> None:
    world = World(a=1.0)
    world.pool.submit(fake_job(1))
    world.pool.step()
    told = [(1, 1.0), (1, 2.0), (5, 1.0)]
    world.pool.returned("a", [(number, Measurement(Status.OK, (seconds,))) for number, seconds in told])
    assert [(n, m.seconds) for n, m in world.pool.take()] == [(1, 1.0)]


def test_a_job_that_ends_hosts_becomes_a_failure() -> None:
    world = World()
    world.pool.submit(fake_job(1))
    for key in range(LOSSES):
        world.join(str(key))
        world.pool.step()
        assert world.numbers(str(key)) == [1]
        world.pool.lost(str(key), "the node ran out of memory")
    ((number, measurement),) = world.pool.take()
    assert number == 1 and measurement.status is Status.CRASH and measurement.failure is not None
    assert measurement.failure.stage == "runner" and "the node ran out of memory" in measurement.failure.message
    assert world.pool.in_flight == 0


def test_a_suspect_takes_no_other_along() -> None:
    world = World(a=1.0)
    for job in jobs(2):
        world.pool.submit(job)
    world.pool.step()
    assert world.numbers("a") == [0, 1]
    ended = 0
    while world.pool.in_flight:
        ended += 1
        for key in [key for key in world.hosts.asked if 1 in world.numbers(key)]:
            world.pool.lost(key, "killed by job 1")
        world.join(f"new {ended}")
        world.pool.submit(fake_job(10 + ended)) if ended < 3 else None
        world.pool.step()
        for key in [key for key in world.hosts.asked if 1 not in world.numbers(key)]:
            world.answer(key)
        assert ended < 20
    done = dict(world.pool.take())
    assert sorted(number for number, measurement in done.items() if not measurement.ok) == [1]
    assert sorted(done) == [0, 1, 11, 12]


def test_a_silent_host_is_given_up() -> None:
    world = World(a=1.0)
    world.pool.submit(fake_job(1))
    world.pool.step()
    world.now = world.pool.deadline + 0.1
    world.pool.step()
    assert world.hosts.dismissed == [("a", False)] and world.pool.in_flight == 1
    world.join("b")
    world.pool.step()
    assert world.numbers("b") == [1]


def test_short_jobs_are_held_in_greater_number() -> None:
    world = World(a=1.0)
    assert world.pool.capacity == 2
    world.run(jobs(60))
    assert 4 < world.pool.capacity <= 32


def test_builders_build_for_devices() -> None:
    world = World(a=1.0)
    world.join("b", builds=True)
    for job in jobs(3):
        world.pool.submit(job)
    world.pool.step()
    assert world.numbers("a") == [0] and world.numbers("b") == [1, 2], "a device that has nothing builds for itself"
    built = Built(b"code", "fake 1", 0.5)
    bad = Measurement(Status.COMPILE_ERROR)
    world.hosts.asked.pop("b")
    world.pool.returned("b", [(1, built), (2, bad)])
    world.pool.step()
    world.answer("a")
    assert [errand.built for errand in world.hosts.asked["a"]] == [built]
    world.answer("a")
    done = dict(world.pool.take())
    assert sorted(done) == [0, 1, 2] and done[2].status is Status.COMPILE_ERROR


def test_what_was_built_is_not_built_again_when_a_device_is_lost() -> None:
    world = World(a=1.0)
    world.join("b", builds=True)
    for job in jobs(2):
        world.pool.submit(job)
    world.pool.step()
    world.hosts.asked.pop("b")
    world.pool.returned("b", [(1, Built(b"code", "fake 1", 0.5))])
    world.answer("a")
    world.pool.lost("a", "gone")
    world.join("c")
    world.pool.step()
    assert [errand.built is not None for errand in world.hosts.asked["c"]] == [True]


# ---- fairness


def test_a_single_device_times_no_anchor() -> None:
    world = World(a=1.0)
    world.run(jobs(30))
    assert all(number >= 0 for number in world.numbers("a")) and world.pool._anchors == 0


def test_a_slower_twin_is_normalised() -> None:
    world = World(a=1.0, b=1.0, c=1.1)
    done = world.run(jobs(60))
    late = [measurement for number, measurement in done.items() if number >= 10]
    assert all(measurement.seconds == pytest.approx(1e-3, rel=1e-6) for measurement in late)
    assert any("divided by its pace 1.100" in measurement.device for measurement in late)
    assert len(world.pool.devices) == 3


def test_limits_are_in_the_time_of_the_device() -> None:
    world = World(a=1.0, b=1.0, c=1.2)
    world.run(jobs(40))
    for number in range(100, 112):
        world.pool.submit(fake_job(number, limit=1.0))
    world.pool.step()
    assert {round(errand.job.limit or 0.0, 6) for errand in world.hosts.asked["c"]} == {1.2}
    assert {errand.job.limit for errand in world.hosts.asked["a"]} == {1.0}


def test_what_is_far_slower_is_no_twin() -> None:
    world = World(a=1.0, b=1.0, c=1.6)
    done = world.run(jobs(60))
    assert sorted(done) == list(range(60)) and ("c", True) in world.hosts.dismissed
    assert "1.60 times slower" in world.pool.refused["host c"] and "host c is not used any more" in world.said[0]


def test_a_drifting_device_is_measured_again_elsewhere() -> None:
    world = World(a=1.0, b=1.0)
    world.run(jobs(200))
    world.now += 60.0
    world.speed["b"] = 1.2  # it has become hot
    done = world.run(jobs(300, first=1000))
    world.now += 60.0
    done |= world.run(jobs(300, first=2000))
    late = [measurement.seconds for number, measurement in done.items() if number >= 2000]
    assert max(late) == pytest.approx(1e-3, rel=0.03) and len(late) == 300


def test_drifting_alone_it_is_believed() -> None:
    world = World(a=1.0, b=1.0)
    world.run(jobs(100))
    world.pool.lost("b", "gone")
    world.speed["a"] = 1.5
    world.now += 60.0
    assert len(world.run(jobs(100, first=1000))) == 100


@pytest.mark.parametrize("status", [Status.CRASH, Status.UNSTABLE])
def test_an_anchor_that_fails_does_not_hold_results_for_ever(status: Status) -> None:
    world = World(a=1.0, b=1.0)
    real = world.measure

    def measure(key: str, job: Job, _: Status) -> Measurement:
        return real(key, job, status if job.number < 0 else Status.OK)

    world.measure = measure  # type: ignore[method-assign]
    assert len(world.run(jobs(50))) == 50


# ---- contenders


def test_contenders_are_compared_on_one_device_when_all_is_quiet() -> None:
    world = World(a=1.0, b=1.0)
    world.run(jobs(40))
    contenders = [fake_job(number, Purpose.CONFIRM) for number in (5, 3)]
    world.pool.submit(fake_job(99))
    world.pool.confirm(contenders)
    world.pool.step()
    assert world.hosts.confirming == {}, "something is in flight"
    for key in list(world.hosts.asked):
        world.answer(key)
    (key,) = world.hosts.confirming
    world.pool.confirmed(key, [(job.number, Measurement(Status.OK, (1.0,))) for job in contenders])
    answers = world.pool.take_confirmed()
    assert answers is not None and [number for number, _ in answers] == [5, 3]
    assert world.pool.take_confirmed() is None


def test_the_comparison_moves_when_its_device_is_lost_and_ends_some_time() -> None:
    world = World()
    world.pool.confirm([fake_job(1, Purpose.CONFIRM)])
    for number in range(LOSSES):
        world.join(str(number))
        world.pool.step()
        assert str(number) in world.hosts.confirming
        world.pool.lost(str(number), "gone")
    world.pool.step()
    answers = world.pool.take_confirmed()
    assert answers is not None and answers[0][1].status is Status.CRASH


def test_comparing_nothing_needs_nobody() -> None:
    world = World()
    world.pool.confirm([])
    assert list(world.pool.take_confirmed() or []) == []
