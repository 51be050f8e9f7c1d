"""The local runner with children that crash, hang, eat memory and talk nonsense, on command."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from contracts.fake_runner import fake_runner
from contracts.measure_fakes import fake_job
from contracts.runner import RunnerContract, gather
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.process.builder import Built
from tilesmith.measure.process.oom import memory_kills
from tilesmith.measure.requests import TimeLimits
from tilesmith.measure.result import Continuing, Job, Measurement, Purpose, Status
from tilesmith.measure.timing.leaders import KEPT, Leaders


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalRunner]:
    with fake_runner() as runner:
        yield runner


@pytest.fixture
def runner() -> Iterator[LocalRunner]:
    with fake_runner(builders=1) as one:
        yield one


def one(runner: LocalRunner, job: Job) -> Measurement:
    runner.submit(job)
    return gather(runner, 1)[job.number]


class TestLocalRunner(RunnerContract):
    @pytest.fixture
    def runner(self, cold_children: None) -> Iterator[LocalRunner]:
        with fake_runner() as one:
            yield one

    def good_job(self, number: int, purpose: Purpose = Purpose.SEARCH) -> Job:
        return fake_job(number, purpose)

    def bad_job(self, number: int) -> Job:
        return fake_job(number, build="segfault")


ENDS = [
    ("segfault", Status.CRASH, "SIGSEGV"),
    ("abort", Status.CRASH, "Cannot select"),
    ("hang", Status.TIMEOUT, "not done after 1.5 s"),
    ("spin", Status.TIMEOUT, "not done after 1.5 s"),
    ("eat", Status.OUT_OF_MEMORY, "memory"),
    ("killed", Status.CRASH, "SIGKILL"),
    ("exit", Status.CRASH, "code 3"),
    ("raise", Status.CRASH, "the handler itself is broken"),
    ("garbage", Status.CRASH, "overwritten"),
    ("half", Status.CRASH, ""),
]


@pytest.mark.parametrize(("what", "status", "words"), ENDS)
def test_what_a_build_may_do(shared: LocalRunner, what: str, status: Status, words: str) -> None:
    found = one(shared, fake_job(1, build=what))
    assert found.status is status and found.failure is not None
    assert found.failure.stage == "compile" and words in found.failure.message
    assert one(shared, fake_job(2)).ok


@pytest.mark.parametrize(("what", "status", "words"), ENDS)
def test_what_a_kernel_may_do(shared: LocalRunner, what: str, status: Status, words: str) -> None:
    found = one(shared, fake_job(1, run=what))
    assert found.status is status and found.failure is not None
    assert found.failure.stage == "verify" and words in found.failure.message
    assert found.builder == "fake 1" and found.compile_seconds == 0.25
    assert one(shared, fake_job(2)).ok


@pytest.mark.parametrize("place", [0, 1], ids=["timer", "builder"])
def test_a_child_that_somebody_killed_costs_its_candidate_nothing(
    runner: LocalRunner, tmp_path: Path, place: int
) -> None:
    log = tmp_path / "log"
    job = fake_job(1, log=str(log), time="nap") if place == 0 else fake_job(1, log=str(log), build="nap")
    runner.submit(job)
    word = ("quiet", "build")[place]
    while not log.exists() or word not in log.read_text():
        assert not runner.collect(0.05)
    os.kill(runner.children[place], signal.SIGKILL)
    assert gather(runner, 1)[1].ok
    assert log.read_text().count(word) == 2, "it was begun again"


def test_a_child_that_the_system_ended_for_want_of_memory_is_told_apart(
    shared: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = count()
    monkeypatch.setattr("tilesmith.measure.process.child.memory_kills", lambda: next(kills))
    one(shared, fake_job(1, run="exit"))  # the next timer knows the count of its start
    found = one(shared, fake_job(2, run="killed"))
    assert found.status is Status.OUT_OF_MEMORY
    assert found.failure is not None
    assert "want of memory" in found.failure.message


def test_ends_for_want_of_memory_are_read_where_the_kernel_counts_them(tmp_path: Path) -> None:
    vmstat, own, groups = tmp_path / "vmstat", tmp_path / "own", tmp_path / "groups"
    assert memory_kills(vmstat, own, groups) == 0
    vmstat.write_text("nr_free 7\noom_kill 3\n")
    assert memory_kills(vmstat, own, groups) == 3
    own.write_text("9:name=systemd:/\n4:cpu,memory:/a\n0::/b\n")
    for place, kills in (("memory/a/memory.oom_control", 4), ("b/memory.events", 5), ("memory.events", 6)):
        (groups / place).parent.mkdir(parents=True, exist_ok=True)
        (groups / place).write_text(f"oom 9\noom_kill {kills}\n")
        assert memory_kills(vmstat, own, groups) == kills


def test_a_hang_while_the_clock_runs(shared: LocalRunner) -> None:
    found = one(shared, fake_job(1, time="hang", threads=64))
    assert found.status is Status.TIMEOUT and found.failure is not None and found.failure.stage == "time"
    assert one(shared, fake_job(2)).ok, "builders go on after the timer's death"


def test_children_that_talk_disturb_nobody(shared: LocalRunner, capfd: pytest.CaptureFixture[str]) -> None:
    assert one(shared, fake_job(1, build="talk", run="talk")).ok
    assert capfd.readouterr() == ("", "")


def test_a_measurement_tells_all(shared: LocalRunner) -> None:
    found = one(shared, fake_job(1, seconds=2e-3))
    assert found.seconds == 2e-3 and found.compile_seconds == 0.25
    assert found.builder == "fake 1" and found.device.startswith("fake")


def test_a_crash_costs_one_job_of_many(shared: LocalRunner) -> None:
    bad = {3: "segfault", 4: "exit", 11: "abort"}
    for number in range(20):
        shared.submit(fake_job(number, build=bad.get(number, "ok"), run="segfault" if number == 15 else "ok"))
    done = gather(shared, 20)
    assert {n for n, m in done.items() if not m.ok} == {*bad, 15}


def test_a_wrong_kernel_gets_no_second_chance_to_do_harm(runner: LocalRunner) -> None:
    def process(job: Job) -> str:
        return one(runner, job).device.split()[1]

    first = process(fake_job(1))
    assert process(fake_job(2)) == first
    assert one(runner, fake_job(3, run="wrong")).status is Status.WRONG_RESULT
    assert process(fake_job(4)) != first


def test_an_invalid_config_does_not_cost_the_builder(runner: LocalRunner, tmp_path: Path) -> None:
    log = tmp_path / "log"
    one(runner, fake_job(1, log=str(log)))
    assert one(runner, fake_job(2, build="invalid")).status is Status.INVALID
    one(runner, fake_job(3, log=str(log)))
    pids = {line.split()[1] for line in log.read_text().splitlines() if line.startswith("build")}
    assert len(pids) == 1


def test_untrusted_times_get_a_second_chance(shared: LocalRunner, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    assert one(shared, fake_job(1, unstable_until=str(mark))).ok and mark.exists()
    assert one(shared, fake_job(2, unstable_until=str(tmp_path / "no" / "such" / "place"))).status is Status.UNSTABLE


def test_the_limit_follows_the_best_time(runner: LocalRunner) -> None:
    assert "limit=None" in one(runner, fake_job(1, seconds=2e-3)).device
    assert "limit=0.002" in one(runner, fake_job(2, limit=1.0, seconds=3e-3)).device
    assert "limit=0.001" in one(runner, fake_job(3, limit=1e-3)).device


def test_a_new_timer_is_told_what_the_seconds_of_the_last_one_were_worth(runner: LocalRunner) -> None:
    """It meets the machine in another moment."""

    def reference(job: Job) -> str:
        return one(runner, job).device.rpartition(" reference=")[2]

    one(runner, fake_job(1, seconds=9e-3))  # without a limit a kernel is timed as it is
    assert reference(fake_job(2, limit=1.0, seconds=1.0)) == "None"
    assert reference(fake_job(3, limit=1.0, seconds=2e-3)) == "None", "what takes long tells of no moment"
    assert reference(fake_job(4, limit=1.0, seconds=1.9e-3)) == "0.002"
    one(runner, fake_job(5, run="segfault", limit=1.0))
    assert reference(fake_job(6, limit=1.0, seconds=1e-3)) == "0.002", "the first one stays: the least is lucky"
    assert reference(fake_job(7, limit=1.0)) == "0.001", "but for one that is much faster"
    assert reference(fake_job(8, limit=1.0, threads=2)) == "None", "tasks have nothing in common"


def test_a_standard_that_breaks_is_nobody_elses_fault(runner: LocalRunner) -> None:
    one(runner, fake_job(1, limit=1.0, later="segfault"))
    one(runner, fake_job(2, limit=1.0, run="segfault"))
    found = one(runner, fake_job(3, limit=1.0))
    assert found.ok and "reference=None" in found.device


def test_what_breaks_beside_a_standard_is_its_own_fault(runner: LocalRunner) -> None:
    one(runner, fake_job(1, limit=1.0))
    one(runner, fake_job(2, limit=1.0, run="segfault"))
    found = one(runner, fake_job(3, limit=1.0, time="segfault"))
    assert found.status is Status.CRASH and found.failure is not None and found.failure.stage == "time"
    assert "reference=0.001" in one(runner, fake_job(4, limit=1.0)).device


def test_a_search_that_goes_on_keeps_the_units_of_what_is_known(shared: LocalRunner) -> None:
    assert isinstance(shared, Continuing)
    for number in range(2, 2 + shared.capacity):  # all that it holds, as a search leaves it that was interrupted
        shared.submit(fake_job(number, limit=1.0, threads=2, seconds=5e-3))
    shared.go_on_from(fake_job(1, work=2e-3, threads=2), 5e-3)
    done = gather(shared, shared.capacity)
    assert 1 not in done, "it is no trial"
    assert all("reference=0.005" in found.device for found in done.values()), "it is built first, and waited for"
    shared.go_on_from(fake_job(1, threads=2), 7e-3)
    assert "reference=0.005" in one(shared, fake_job(2, limit=1.0, threads=2)).device
    shared.go_on_from(fake_job(1, build="segfault", threads=3), 7e-3)
    assert "reference=None" in one(shared, fake_job(2, limit=1.0, threads=3)).device


def events(log: Path) -> list[tuple[str, float]]:
    return [(word, float(when)) for word, _, when in (line.split() for line in log.read_text().splitlines())]


@pytest.mark.parametrize(("threads", "disturbed"), [(1, True), (64, False)])
def test_builders_rest_while_a_parallel_kernel_is_timed(tmp_path: Path, threads: int, disturbed: bool) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core: there is nobody beside the timer")
    log = tmp_path / "log"
    with fake_runner(builders=1, limits=TimeLimits(compile=30.0, time=30.0)) as runner:
        runner.submit(fake_job(0))
        gather(runner, 1)
        runner.submit(fake_job(1, threads=threads, log=str(log), wait=0.3))
        runner.submit(fake_job(2, work=0.3, log=str(log)))
        assert all(m.ok for m in gather(runner, 2).values())
    seen = events(log)
    begin, end = next(t for w, t in seen if w == "quiet"), next(t for w, t in seen if w == "loud")
    ticks = [t for w, t in seen if w == "tick" and begin + 0.05 < t < end]
    assert bool(ticks) == disturbed


def test_a_rest_is_no_timeout(tmp_path: Path) -> None:
    """The rest alone is longer than the limit, however fast the machine; work is within it where half of a core is left."""

    def rested(scale: float) -> bool:
        log = tmp_path / f"log {scale}"
        with fake_runner(builders=1, limits=TimeLimits(compile=0.6 * scale, time=5.0 * scale)) as runner:
            runner.submit(fake_job(0))
            gather(runner, 1)
            runner.submit(fake_job(1, threads=64, wait=1.0 * scale, log=str(log)))
            runner.submit(fake_job(2, work=0.3, log=str(log)))
            return all(m.ok for m in gather(runner, 2).values())

    assert any(rested(scale) for scale in (1.0, 3.0, 9.0)), "more time to work each time, and a longer rest"


def test_builders_go_on_between_calls(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with fake_runner(builders=1) as runner:
        runner.submit(fake_job(0))
        gather(runner, 1)
        for number in (1, 2):
            runner.submit(fake_job(number, log=str(log)))
        time.sleep(0.5)  # the caller thinks
        assert [w for w, _ in events(log)] == ["build", "build"]
        gather(runner, 2)


def test_confirm_survives_a_contender_that_crashes(shared: LocalRunner) -> None:
    shared.submit(fake_job(9))
    kinds = ["ok", "segfault", "ok", "wrong", "ok"]
    jobs = [fake_job(n, Purpose.CONFIRM, run=kind) for n, kind in enumerate(kinds)]
    answers = shared.confirm(jobs)
    assert [n for n, _ in answers] == [0, 1, 2, 3, 4]
    statuses = [m.status for _, m in answers]
    assert statuses == [Status.OK, Status.CRASH, Status.OK, Status.WRONG_RESULT, Status.OK]
    assert all(m.builder == "fake 1" for _, m in answers)
    assert [n for n, _ in shared.collect()] == [9], "what was in flight is still there"


def test_confirm_does_not_build_again_what_was_fast() -> None:
    known = fake_job(1, seconds=1e-3)
    with fake_runner(builders=1) as runner:
        runner.submit(known, Built(pickle.dumps(dict(known.config)), "elsewhere", 1.0))
        gather(runner, 1)
        jobs = [fake_job(2, Purpose.CONFIRM, seconds=2e-3), fake_job(3, Purpose.CONFIRM, seconds=1e-3)]
        found = [(number, m.seconds, m.builder) for number, m in runner.confirm(jobs)]
    assert found == [(2, 2e-3, "fake 1"), (3, 1e-3, "elsewhere")]


def test_few_artifacts_are_kept_and_these_are_the_fastest() -> None:
    leaders = Leaders()
    for number in range(KEPT + 1, 0, -1):
        timed = Measurement(Status.OK, (1e-3 * number,))
        leaders.learn(fake_job(number, n=number), Built(b"", str(number), 0.0), timed)
    leaders.learn(fake_job(0, n=0), Built(b"", "0", 0.0), Measurement(Status.OK, (1e-6,), abandoned=True))
    leaders.learn(fake_job(0, n=0), Built(b"", "0", 0.0), Measurement(Status.WRONG_RESULT))
    kept = [built.builder for number in range(KEPT + 2) if (built := leaders.of(fake_job(99, n=number)))]
    assert kept == [str(number) for number in range(1, KEPT + 1)]
    assert leaders.of(fake_job(1, threads=2, n=1)) is None, "another task"


class Beside:
    """What computes beside trials, as a runner sees it."""

    def __init__(self) -> None:
        (reading, self.says) = os.pipe()
        self.descriptors = [reading]
        self.stopped, self.stops = False, 0

    def pause(self) -> None:
        self.stopped = True
        self.stops += 1

    def resume(self) -> None:
        self.stopped = False


def test_trials_go_on_while_a_child_thinks_and_it_is_stopped_while_a_clock_is_read(
    runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`collect` is not waited in: all that has to happen, happens in a call of `tend`."""
    child, asked = Beside(), list[bool]()

    def done() -> bool:
        asked.append(child.stopped)
        return len(runner._finished) == 3

    for number in range(3):
        runner.submit(fake_job(number))
    runner.tend(child, done)
    assert sorted(number for number, _ in runner.collect(timeout=0.0)) == [0, 1, 2]
    assert child.stops == 3 and not child.stopped and not any(asked)
    os.write(child.says, b"an answer that nobody waits for")
    steps, step = list[float](), runner._step

    def counted(end: float, also: Sequence[int] = ()) -> None:
        steps.append(end)
        step(end, also)

    monkeypatch.setattr(runner, "_step", counted)
    runner.submit(fake_job(3, build="nap"))
    assert gather(runner, 1)[3].ok and child.stops == 4, "it thinks while its caller waits for trials, too"
    assert len(steps) < 50, "the caller waits, and does not ask again and again"
    runner.tend(child, lambda: True)  # what is known already is not waited for
