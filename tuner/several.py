"""Programs for several targets at once, each on the machines of a cluster that are such a target."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import Any

from ..common.errors import ArgumentError
from ..graph.model import Model
from ..measure.cluster.ray_runner import RayRunner, address_of
from ..measure.result import AtEnd, Job, Measurement
from ..targets.host import thread_count
from ..targets.target import parse_target
from ..tensor.program import Program
from .outcome import TuneResult
from .runners import is_elsewhere
from .tune import tune


class Stoppable(AtEnd):
    """A runner of a thread: ctrl-C reaches the main thread alone, and is handed on (implements `measure.result.Runner`)."""

    name = "ray"

    def __init__(self, runner: RayRunner, stop: Event) -> None:
        self._runner, self._stop = runner, stop
        self.machine, self.ceilings = runner.machine, runner.ceilings

    @property
    def capacity(self) -> int:
        """See `Runner.capacity`."""
        return self._runner.capacity

    def submit(self, job: Job) -> None:
        """See `Runner.submit`."""
        self._runner.submit(job)

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        """May come back early with nothing. Raises KeyboardInterrupt when the main thread was told to stop."""
        if self._stop.is_set():
            raise KeyboardInterrupt
        return self._runner.collect(0.5 if timeout is None else min(timeout, 0.5))

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        """See `Runner.confirm`."""
        return self._runner.confirm(jobs)

    def close(self) -> None:
        """See `Runner.close`."""
        self._runner.close()


def tune_targets(
    programs: Sequence[Program | Model],
    targets: Sequence[str],
    *,
    runner: str = "local",
    threads: int | None = None,
    **options: Any,
) -> TuneResult:
    """`tune` for each target; on a cluster at the same time, without progress. Results are in the order of the targets.

    Raises:
        ArgumentError: several targets, and no cluster. Else as `tune`.
    """
    if len(targets) == 1:
        return tune(programs, target=targets[0], runner=runner, threads=threads, **options)
    if not is_elsewhere(runner) or not (address := address_of(runner)):
        raise ArgumentError(
            "several targets need a cluster that has them",
            found=f"--runner {runner} and the targets {', '.join(targets)}",
            advice="give --runner ray://host:port, or tune one after the other",
        )
    stop = Event()

    def one(target: str) -> TuneResult:
        resolved = parse_target(target)
        count = thread_count(threads, resolved)
        with RayRunner(address, resolved.text, count) as cluster, Stoppable(cluster, stop) as stoppable:
            return tune(programs, target=resolved, runner=stoppable, threads=count, **{**options, "progress": False})

    with ThreadPoolExecutor(len(targets)) as pool:
        futures = [pool.submit(one, target) for target in targets]
        try:
            wait(futures)
        except KeyboardInterrupt:
            stop.set()
            wait(futures)
    return TuneResult(tuple(task for future in futures for task in future.result().tasks))
