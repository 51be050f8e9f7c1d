"""What every runner promises. A test class derives from this and says which runner it means."""

from __future__ import annotations

from time import monotonic

import pytest

from tilesmith.measure.result import Job, Measurement, Purpose, Runner


def gather(runner: Runner, count: int, seconds: float = 60.0) -> dict[int, Measurement]:
    """Collects until `count` jobs are back; every number may come once."""
    done: dict[int, Measurement] = {}
    end = monotonic() + seconds
    while len(done) < count and monotonic() < end:
        for number, measurement in runner.collect(timeout=1.0):
            assert number not in done
            done[number] = measurement
    assert len(done) == count, f"{len(done)} of {count} jobs came back"
    return done


class RunnerContract:
    """Derive, and give the fixture `runner` and the two kinds of job."""

    @pytest.fixture
    def runner(self) -> Runner:
        raise NotImplementedError

    def good_job(self, number: int, purpose: Purpose = Purpose.SEARCH) -> Job:
        """A job that ends ok."""
        raise NotImplementedError

    def bad_job(self, number: int) -> Job:
        """A job that fails."""
        raise NotImplementedError

    def test_a_good_job_is_timed(self, runner: Runner) -> None:
        runner.submit(self.good_job(7))
        measurement = gather(runner, 1)[7]
        assert measurement.ok and measurement.failure is None
        assert 0 < measurement.seconds < float("inf")

    def test_a_failure_is_a_value_and_the_next_job_is_fine(self, runner: Runner) -> None:
        runner.submit(self.bad_job(1))
        runner.submit(self.good_job(2))
        done = gather(runner, 2)
        assert not done[1].ok and done[1].seconds == float("inf") and done[1].times == ()
        assert done[1].failure is not None and done[1].failure.stage and done[1].failure.message
        assert done[2].ok

    def test_every_job_comes_back_once(self, runner: Runner) -> None:
        jobs = [self.bad_job(n) if n % 4 == 1 else self.good_job(n) for n in range(10, 22)]
        for job in jobs:
            runner.submit(job)
        done = gather(runner, len(jobs))
        assert {n for n, m in done.items() if not m.ok} == {13, 17, 21}
        assert list(runner.collect(timeout=0.05)) == []

    def test_nothing_in_flight_does_not_wait(self, runner: Runner) -> None:
        start = monotonic()
        assert list(runner.collect()) == []
        assert monotonic() - start < 0.9

    def test_a_timeout_is_kept(self, runner: Runner) -> None:
        runner.submit(self.good_job(1))
        start = monotonic()
        early = dict(runner.collect(timeout=0.0))
        assert monotonic() - start < 0.5
        assert (early or gather(runner, 1))[1].ok

    def test_capacity_is_positive(self, runner: Runner) -> None:
        assert runner.capacity >= 1 and runner.name

    def test_confirm_answers_in_order(self, runner: Runner) -> None:
        jobs = [self.good_job(n, Purpose.CONFIRM) for n in (5, 3, 4)]
        answers = runner.confirm(jobs)
        assert [number for number, _ in answers] == [5, 3, 4]
        assert all(m.ok and m.times and not m.abandoned for _, m in answers)

    def test_confirm_of_nothing_and_of_a_failure(self, runner: Runner) -> None:
        assert list(runner.confirm([])) == []
        answers = dict(runner.confirm([self.bad_job(1), self.good_job(2, Purpose.CONFIRM)]))
        assert not answers[1].ok and answers[1].failure is not None
        assert answers[2].ok

    def test_close_may_come_twice_and_in_the_middle(self, runner: Runner) -> None:
        for number in range(4):
            runner.submit(self.good_job(number))
        runner.close()
        runner.close()

    def test_it_is_a_context(self, runner: Runner) -> None:
        with runner as same:
            assert same is runner
