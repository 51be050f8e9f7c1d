"""Several targets at once, over a cluster that is played."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tilesmith.measure.result import Job, Measurement, Status
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.ops import matmul
from tilesmith.tuner import several
from tilesmith.tuner.several import Stoppable, tune_targets

TARGETS = ["x86:avx2;cores=1", "x86:avx512;cores=1"]


class Played:
    """Answers at once; both searches must be under way before either is answered."""

    together = threading.Barrier(2)

    def __init__(self, address: str, target: str, threads: int, **options: Any) -> None:
        assert address == "10.0.0.1:6379"
        self.machine, self.ceilings = f"machine of {target}", default_ceilings(parse_target(target), threads)
        self.capacity, self.closed, self._met = 4, False, False
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        if not self._met:
            self.together.wait(timeout=60)
            self._met = True
        return self._answers()

    def _answers(self) -> list[tuple[int, Measurement]]:
        done = [(job.number, Measurement(Status.OK, (1e-3,), device=job.target)) for job in self._jobs]
        self._jobs = []
        return done

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        self._jobs = list(jobs)
        return self._answers()

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def test_each_target_is_searched_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "RayRunner", Played)
    address = tmp_path / "address"
    address.write_text("10.0.0.1:6379")
    result = tune_targets(
        [matmul(32, 32, 32)],
        TARGETS,
        runner=str(address),
        trials=6,
        strategy="random",
        db=tmp_path / "a.db",
        progress=True,
    )
    assert [task.task.target.partition(";")[0] for task in result.tasks] == ["x86:avx2", "x86:avx512"]
    for task in result.tasks:
        assert len({record.trial.machine for record in task.records}) == 1
        assert {record.trial.measurement.device for record in task.records} == {task.task.target}
    machines = {record.trial.machine for record in result.records}
    assert len(machines) == 2, "records belong to the machines that measured"


def test_ctrl_c_is_handed_on() -> None:
    stop = threading.Event()
    Played.together = threading.Barrier(1)
    runner = Stoppable(Played("10.0.0.1:6379", TARGETS[0], 1), stop)  # type: ignore[arg-type]
    assert runner.collect() == []
    stop.set()
    with pytest.raises(KeyboardInterrupt):
        runner.collect()
