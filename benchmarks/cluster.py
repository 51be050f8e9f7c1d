"""What a cluster costs and keeps: python benchmarks/cluster.py [best|capacity|overhead|loss|start ...]

Five measures on this machine alone, with several nodes of Ray on it (`ray.cluster_utils`):

    best       tune the same task with --runner local and over Ray, same seed and trials; the two winners are then timed
               interleaved, side by side (bar: the same within noise)
    capacity   trials a second that one driver drives, hosts that sleep 20 ms each (bars: 1,500/s over 64; 90% of ideal at 32)
    overhead   one trial at a time, over Ray against local, alternating (bar: median of the difference <= 8 ms)
    loss       500 trials, a node is taken away at a random moment, 3 times (bar: 500 records, none lost, none double)
    start      from `tune run --runner ray` to its first trial (bar: 12 s)

Hosts that sleep are processes too: with 64 of them on few cores the machine, not the driver, may be the limit; the
processor time that the driver itself spent for each trial is shown beside, and says what one driver can drive.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from tilesmith.measure.host import Order
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.ray_runner import RayRunner
from tilesmith.measure.result import Job, Measurement, Purpose, Status
from tilesmith.targets.target import parse_target

HOST = parse_target("host").text
SLEEP = 0.02
TRIAL = 0.1  # seconds of a real trial on a device, without its build
MEMORY = 100 << 20
COPY = "input A: f32[1024]\nB[i: 1024] = A[i] + 1\nreturn B\n"


class Sleeper:
    """A host without a device: each job takes SLEEP seconds, one after the other."""

    capacity = 2

    def __init__(self) -> None:
        self._queue: deque[tuple[float, int]] = deque()

    def submit(self, job: Job, built: object = None) -> None:
        """Takes a job."""
        start = max(time.monotonic(), self._queue[-1][0] if self._queue else 0.0)
        self._queue.append((start + SLEEP, job.number))

    def collect(self, timeout: float | None = None) -> list[tuple[int, Measurement]]:
        """Jobs whose time is over."""
        if self._queue:
            wait = self._queue[0][0] - time.monotonic()
            time.sleep(max(0.0, wait if timeout is None else min(wait, timeout)))
        done = []
        while self._queue and self._queue[0][0] <= time.monotonic():
            done.append((self._queue.popleft()[1], Measurement(Status.OK, (1e-3,) * 3)))
        return done

    def close(self) -> None:
        """Nothing to end."""


def sleeper(order: Order, speeds: Any) -> Sleeper:
    """The factory, called in the workers."""
    return Sleeper()


@contextmanager
def cluster(nodes: int, processors: int) -> Iterator[Any]:
    """A head without processors and so many nodes, all on this machine."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": MEMORY}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        made.all = [made.add_node(num_cpus=processors, object_store_memory=MEMORY) for _ in range(nodes)]
        yield made
    finally:
        made.shutdown()


def sleepers(address: str, **options: Any) -> RayRunner:
    """A runner over hosts that sleep."""
    return RayRunner(address, HOST, 1, factory="cluster:sleeper", exclusive=False, **options)


def job(number: int, program: str = COPY) -> Job:
    """The unscheduled nest of a small program."""
    return Job(number, program, "", {}, HOST, 1, Purpose.SEARCH)


def best() -> None:
    """The same winner."""
    for name, sizes in (("matmul", "m=384 n=384 k=384"), ("softmax", "rows=512 columns=1000")):
        with tempfile.TemporaryDirectory() as folder:
            records = [
                tuned(name, sizes.split(), runner, Path(folder) / f"{runner}.sqlite") for runner in ("local", "ray")
            ]
            with LocalRunner(HOST, 1) as runner:
                answers = runner.confirm(records)
        local, ray = (measurement for _, measurement in answers)
        ratio = ray.seconds / local.seconds
        print(
            f"best of {name} {sizes}: local {local.seconds * 1e6:.1f} us, ray {ray.seconds * 1e6:.1f} us, ratio {ratio:.3f}"
        )


def tuned(name: str, sizes: Sequence[str], runner: str, path: Path) -> Job:
    """Tunes in a process of its own; gives the winner as a job."""
    from tilesmith.tuner.database import Database

    run = [sys.executable, "-m", "tilesmith", "run", name, *sizes, "--threads", "1", "--trials", "64", "--seed", "1"]
    start = time.monotonic()
    subprocess.run(
        [*run, "--runner", runner, "--db", str(path), "--no-progress"], check=True, stdout=subprocess.DEVNULL
    )
    with Database(path, read_only=True) as database:
        task = database.tasks()[0]
        record = database.best(task.key)[0]
        sketch = database.sketch(record.trial.sketch)
        count = len(database.records(task.key, purpose=Purpose.SEARCH))
    print(
        f"  {runner}: {count} trials in {time.monotonic() - start:.1f} s, best {record.seconds * 1e6:.1f} us as searched"
    )
    number = 0 if runner == "local" else 1
    text = sketch.text if sketch else ""
    return Job(number, task.program, text, record.config, task.target, task.threads, Purpose.CONFIRM)


def capacity() -> None:
    """Simulated trials over 32 and 64 hosts."""
    for count in (32, 64):
        with cluster(2, count // 2) as made, sleepers(made.address, silence=120.0) as runner:
            wait_for_hosts(runner, count)
            drive(runner, 1 << 30, time.monotonic() + 3.0)  # hosts learn how much to hold
            before, start = processor_seconds(runner), time.monotonic()
            done = drive(runner, 1 << 30, time.monotonic() + 10.0)
            spent, busy = time.monotonic() - start, processor_seconds(runner) - before
            ideal = count / SLEEP
            print(
                f"capacity over {count} hosts: {done / spent:.0f} trials/s, {done / spent / ideal:.0%} of ideal; the driver "
                f"spends {busy / done * 1e6:.0f} us of processor time on a trial: {done / busy:.0f} trials/s on one core; "
                f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
            )
            print(
                f"  1,000 devices with trials of {TRIAL * 1e3:.0f} ms give {1000 / TRIAL:.0f} trials/s: the drivers of these "
                f"need {1000 / TRIAL * busy / done:.1f} cores"
            )


def wait_for_hosts(runner: RayRunner, count: int) -> None:
    """Until every host has answered, and the machine has rested from starting them."""
    seen: set[str] = set()
    end = time.monotonic() + 240
    while len(seen) < count and time.monotonic() < end:
        for _ in range(2 * count):
            runner.submit(job(next(_numbers)))
        for _ in range(40):
            seen |= {measurement.device for _, measurement in runner.collect(timeout=0.1)}
    while runner.collect(timeout=1.0):
        pass
    time.sleep(5.0)


_numbers = iter(range(1 << 40))


def drive(runner: RayRunner, count: int, end: float) -> int:
    """Keeps the runner busy for so many trials, or so long; gives how many came back until then."""
    flying = done = given = 0
    while (done < count or flying) and time.monotonic() < end:
        while flying < runner.capacity and given < count:
            runner.submit(job(next(_numbers)))
            flying, given = flying + 1, given + 1
        home = len(runner.collect(timeout=0.2))
        flying, done = flying - home, done + home
    finished = done
    while flying:
        flying -= len(runner.collect(timeout=1.0))
    return finished


def processor_seconds(runner: RayRunner) -> float:
    """Of this process and of the one that speaks Ray."""
    fields = Path(f"/proc/{runner._child.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") + time.process_time()


def overhead() -> None:
    """One trial at a time."""
    with cluster(1, 2) as made, RayRunner(made.address, HOST, 1) as ray, LocalRunner(HOST, 1) as local:
        times: dict[str, list[float]] = {"local": [], "ray": []}
        for number in range(60):
            for name, runner in (("local", local), ("ray", ray)):
                start = time.monotonic()
                runner.submit(job(number))
                while not (home := runner.collect()):
                    pass
                # What the clock of the timer needs is no overhead, and differs from trial to trial.
                times[name].append(time.monotonic() - start - home[0][1].measure_seconds)
    pairs = [over - here for here, over in zip(times["local"][10:], times["ray"][10:], strict=True)]
    print(
        f"overhead of one trial: median {median(pairs) * 1e3:.1f} ms (local {median(times['local'][10:]) * 1e3:.1f} ms, "
        f"ray {median(times['ray'][10:]) * 1e3:.1f} ms without the timed runs)"
    )


def loss() -> None:
    """A node disappears."""
    for round_ in range(3):
        moment = random.Random(round_).randrange(50, 400)
        with cluster(3, 2) as made, sleepers(made.address, tell=lambda _: None) as runner:
            seen: list[int] = []
            failed = 0
            for number in range(500):
                runner.submit(job(number))
            gone = False
            end = time.monotonic() + 120
            while len(seen) < 500 and time.monotonic() < end:
                for number, measurement in runner.collect(timeout=1.0):
                    seen.append(number)
                    failed += not measurement.ok
                if len(seen) > moment and not gone:
                    made.remove_node(made.all[round_], allow_graceful=False)
                    gone = True
            lost, double = 500 - len(set(seen)), len(seen) - len(set(seen))
            print(f"node loss at trial {moment}: {len(seen)} records, {lost} lost, {double} double, {failed} failed")


def start() -> None:
    """From the command to the first record."""
    from tilesmith.tuner.database import Database

    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "db.sqlite"
            command = [sys.executable, "-m", "tilesmith", "run", "matmul", "m=256", "n=256", "k=256", "--threads", "1"]
            began = time.time()
            subprocess.run(
                [*command, "--trials", "4", "--runner", "ray", "--db", str(path), "--no-progress"],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            with Database(path, read_only=True) as database:
                first = min(record.trial.created for record in database.records(database.tasks()[0].key))
        print(f"start: {first - began:.1f} s from the command to the first trial")


MEASURES: dict[str, Callable[[], None]] = {
    "best": best, "capacity": capacity, "overhead": overhead, "loss": loss, "start": start,
}  # fmt: skip


def main() -> None:
    """Runs what is named, or all."""
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    for name in sys.argv[1:] or MEASURES:
        MEASURES[name]()


if __name__ == "__main__":
    main()
