"""What a cluster costs and keeps: python benchmarks/cluster.py [best|capacity|overhead|loss|start|namespaces ...]

Measures on this machine alone, with several nodes of Ray on it. They end in one table, and in
benchmarks/results/cluster-LABEL.json (--label; a measure made again under the same label replaces its lines):

    best        tune the same task with --runner local and over Ray, same seed and trials; the two winners are then timed
                interleaved, side by side (bar: the same within noise, which is 5% or what the two spread, if more)
    capacity    trials a second that one driver drives, hosts that sleep 20 ms each (bars: 1,500/s over 64; 90% of ideal at 32)
    overhead    one trial at a time, over Ray against local, alternating (bar: median of the difference <= 8 ms)
    loss        500 trials, a node is taken away at a random moment, 3 times (bar: 500 records, none lost, none double)
    start       from `tune run --runner ray` to its first trial (bar: 12 s)
    namespaces  loss again, each node in a network namespace, reached over ray://, and its cable is pulled (needs root)

Hosts that sleep are processes too: with 64 of them on few cores the machine, not the driver, may be the limit; the
processor time that the driver itself spent for each trial is shown beside, and says what one driver can drive.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from cluster_nodes import HOST, SLEEP, apart, beside, namespaces_missing, sleepers

from tilesmith.measure.cluster.ray_runner import RayRunner
from tilesmith.measure.compare.noise import describe
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.result import Job, Measurement, Purpose

TRIAL = 0.1  # seconds of a real trial on a device, without its build
TRIALS = 48
COPY = "input A: f32[1024]\nB[i: 1024] = A[i] + 1\nreturn B\n"
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table. `held`: whether the bar holds; None where it could not be measured, or has none."""

    measure: str
    found: str
    bar: str
    held: bool | None


Lines = Iterator[Line]


def job(number: int, program: str = COPY) -> Job:
    """The unscheduled nest of a small program."""
    return Job(number, program, "", {}, HOST, 1, Purpose.SEARCH)


def best() -> Lines:
    """The same winner."""
    for name, sizes in (("matmul", "m=384 n=384 k=384"), ("softmax", "rows=512 columns=1000")):
        with tempfile.TemporaryDirectory() as folder:
            winners = [
                tuned(name, sizes.split(), runner, Path(folder) / f"{runner}.sqlite") for runner in ("local", "ray")
            ]
            with LocalRunner(HOST, 1) as runner:
                local, ray = (measurement for _, measurement in runner.confirm(winners))
        ratio = ray.seconds / local.seconds
        noise = max(0.05, spread(local), spread(ray))
        found = f"local {local.seconds * 1e6:.1f} us, ray {ray.seconds * 1e6:.1f} us, ratio {ratio:.3f}"
        yield Line(f"best of {name} {sizes}, {TRIALS} trials", found, f"1 within {noise:.0%}", abs(ratio - 1) <= noise)


def spread(measurement: Measurement) -> float:
    """The distance from the first to the third quartile, as a share of the median."""
    times = sorted(measurement.times)
    return (times[-1 - len(times) // 4] - times[len(times) // 4]) / measurement.seconds


def tuned(name: str, sizes: Sequence[str], runner: str, path: Path) -> Job:
    """Tunes in a process of its own; gives the winner as a job."""
    from tilesmith.tuner.records.database import Database

    command = [sys.executable, "-m", "tilesmith", "run", name, *sizes, "--threads", "1", "--seed", "1"]
    command += ["--trials", str(TRIALS), "--runner", runner, "--db", str(path), "--no-progress"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with Database(path, read_only=True) as database:
        task = database.tasks()[0]
        record = database.best(task.key)[0]
        sketch = database.sketch(record.trial.sketch)
        count = len(database.records(task.key, purpose=Purpose.SEARCH))
    assert count == TRIALS, f"{count} of {TRIALS} trials"
    text = sketch.text if sketch else ""
    return Job(int(runner == "ray"), task.program, text, record.config, task.target, task.threads, Purpose.CONFIRM)


def capacity() -> Lines:
    """Simulated trials over 32 and 64 hosts."""
    for count in (32, 64):
        with beside(2, count // 2) as made, sleepers(made.address, silence=120.0) as runner:
            wait_for_hosts(runner, count)
            drive(runner, time.monotonic() + 3.0)  # hosts learn how much to hold
            before, start = processor_seconds(runner), time.monotonic()
            done = drive(runner, time.monotonic() + 8.0)
            spent, busy = time.monotonic() - start, processor_seconds(runner) - before
        speed, ideal = done / spent, count / SLEEP
        load = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
        found = f"{speed:.0f} trials/s, {speed / ideal:.0%} of ideal, {load}"
        if count == 32:
            yield Line("capacity over 32 hosts", found, ">= 90% of ideal", speed >= 0.9 * ideal)
        else:
            yield Line("capacity over 64 hosts", found, ">= 1,500/s", speed >= 1500)
        found = f"{busy / done * 1e6:.0f} us of processor time: {done / busy:.0f} trials/s on one core"
        yield Line(f"driver's own cost of a trial, {count} hosts", found, "", None)
        cores = 1000 / TRIAL * busy / done
        found = f"{1000 / TRIAL:.0f} trials/s: {cores:.1f} cores for the drivers of these"
        yield Line(f"1,000 devices, {TRIAL * 1e3:.0f} ms a trial", found, "", None)


def wait_for_hosts(runner: RayRunner, count: int) -> None:
    """Waits until every host has answered, and the machine has rested from starting them."""
    seen: set[str] = set()
    end = time.monotonic() + 120
    while len(seen) < count and time.monotonic() < end:
        for _ in range(2 * count):
            runner.submit(job(next(_numbers)))
        for _ in range(20):
            seen |= {measurement.device for _, measurement in runner.collect(timeout=0.1)}
    while runner.collect(timeout=1.0):
        pass
    time.sleep(2.0)


_numbers = iter(range(1 << 40))


def drive(runner: RayRunner, end: float) -> int:
    """Keeps the runner busy for so long; gives how many trials came back until then."""
    flying = done = 0
    while time.monotonic() < end:
        while flying < runner.capacity:
            runner.submit(job(next(_numbers)))
            flying += 1
        home = len(runner.collect(timeout=0.2))
        flying, done = flying - home, done + home
    while flying:
        flying -= len(runner.collect(timeout=1.0))
    return done


def processor_seconds(runner: RayRunner) -> float:
    """The processor time of this process and of the one that speaks Ray."""
    fields = Path(f"/proc/{runner._child.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") + time.process_time()


def overhead() -> Lines:
    """One trial at a time."""
    with beside(1, 2) as made, RayRunner(made.address, HOST, 1) as ray, LocalRunner(HOST, 1) as local:
        times: dict[str, list[float]] = {"local": [], "ray": []}
        for number in range(60):
            for name, runner in (("local", local), ("ray", ray)):
                start = time.monotonic()
                runner.submit(job(number))
                while not (home := runner.collect()):
                    pass
                # What the clock of the timer needs is no overhead, and differs from trial to trial.
                times[name].append(time.monotonic() - start - home[0][1].measure_seconds)
    here, over = times["local"][10:], times["ray"][10:]
    more = median(far - near for near, far in zip(here, over, strict=True))
    found = (
        f"{more * 1e3:.1f} ms (local {median(here) * 1e3:.1f}, ray {median(over) * 1e3:.1f}, without the timed runs)"
    )
    yield Line("overhead of one trial, median", found, "<= 8 ms", more <= 8e-3)


def loss() -> Lines:
    """A node disappears: its processes are killed."""
    with beside(5, 2) as made:
        for round_ in range(3):
            moment = random.Random(round_).randrange(50, 400)
            with sleepers(made.address, tell=lambda _: None) as runner:
                yield lose(runner, moment, lambda: made.remove_node(made.all.pop(), allow_graceful=False), "killed")


def lose(runner: RayRunner, moment: int, remove: Callable[[], object], how: str) -> Line:
    """500 trials; a node is taken away after `moment` of them."""
    seen: list[int] = []
    failed, gone = 0, False
    for number in range(500):
        runner.submit(job(number))
    end = time.monotonic() + 120
    while len(set(seen)) < 500 and time.monotonic() < end:
        for number, measurement in runner.collect(timeout=1.0):
            seen.append(number)
            failed += not measurement.ok
        if len(seen) > moment and not gone:
            remove()
            gone = True
    lost, double = 500 - len(set(seen)), len(seen) - len(set(seen))
    found = f"{len(seen)} records, {lost} lost, {double} double, {failed} failed"
    return Line(f"node {how} at trial {moment} of 500", found, "500, 0, 0", gone and not (lost or double))


def namespaces() -> Lines:
    """A node disappears from the network, and nobody says so."""
    if why := namespaces_missing():
        yield Line("nodes in network namespaces", f"not tried: {why}", "500, 0, 0", None)
        return
    with apart(3, 2) as made, sleepers(made.address, silence=8.0, wait=60.0, tell=lambda _: None) as runner:
        wait_for_hosts(runner, 6)
        yield lose(runner, 150, lambda: made.unplug(1), "unplugged (namespace)")


def start() -> Lines:
    """Times a start, from the command to the first record."""
    from tilesmith.tuner.records.database import Database

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "db.sqlite"
        command = [sys.executable, "-m", "tilesmith", "run", "matmul", "m=256", "n=256", "k=256", "--threads", "1"]
        command += ["--trials", "4", "--runner", "ray", "--db", str(path), "--no-progress"]
        began = time.time()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with Database(path, read_only=True) as database:
            first = min(record.trial.created for record in database.records(database.tasks()[0].key))
    seconds = first - began
    yield Line("start: from `tune run --runner ray` to the first trial", f"{seconds:.1f} s", "<= 12 s", seconds <= 12)


MEASURES: dict[str, Callable[[], Lines]] = {
    "best": best, "capacity": capacity, "overhead": overhead, "loss": loss, "start": start, "namespaces": namespaces,
}  # fmt: skip


def save(label: str, found: dict[str, list[Line]]) -> Path:
    """Into the file of the label; what was measured under it before stays beside."""
    path = RESULTS / f"cluster-{label}.json"
    kept = json.loads(path.read_text())["measures"] if path.exists() else {}
    when = time.strftime("%Y-%m-%d %H:%M:%S +0000", time.gmtime())
    new = {name: {"when": when, "lines": [asdict(line) for line in lines]} for name, lines in found.items()}
    document = {"machine": describe(), "measures": kept | new}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path


def main() -> None:
    """Runs what is named, or all."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description="What a cluster costs and keeps, on this machine.")
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=", ".join(MEASURES))
    parser.add_argument("--label", default=f"{os.cpu_count()}cores", help="of the file in benchmarks/results/")
    words = parser.parse_args()
    if unknown := [name for name in words.measures if name not in MEASURES]:
        parser.error(f"unknown measure {unknown[0]!r}: give some of {', '.join(MEASURES)}")
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    found: dict[str, list[Line]] = {}
    began = time.monotonic()
    for name in words.measures or MEASURES:
        found[name] = []
        for line in MEASURES[name]():
            found[name].append(line)
            print(f"[{time.monotonic() - began:4.0f} s] {line.measure}: {line.found}", file=sys.stderr, flush=True)
    table = Table("measure", "found", "bar", "held", title="Tuning on a cluster")
    for line in (line for lines in found.values() for line in lines):
        table.add_row(line.measure, line.found, line.bar, {True: "yes", False: "NO", None: "-"}[line.held])
    Console(width=150).print(table)
    print(f"kept in {save(words.label, found)}, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
