"""The check of GPU kernels: python benchmarks/gpu_check.py, or `make gpu-check`. Under 8 minutes; writes JSON and a table.

1. Every sketch that the rules derive, on small and ragged programs, against the oracle on the device.
2. The programs of gpu_rows.py are tuned; their kernels run in turns with torch's (where torch is) and with a copy that moves
   as many bytes, caches emptied before each run. Bars are judged by medians over the rounds.

Needs NumPy, llvmlite and a CUDA binding (cuda-bindings or pycuda), nothing else; torch is used where it is. `--small` does the
same in the emulator, at small sizes; its times are no GPU's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
from gpu_rows import ROWS, Row, correctness_programs

import tilesmith as ts
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.result import Job
from tilesmith.runtime.devices.choose import device_name, open_device
from tilesmith.runtime.devices.cuda.clocks import clocks
from tilesmith.schedules.space import Candidate
from tilesmith.schedules.space_ops import defaults, sample
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.cuda.devices import gpus, own_target
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.program import Program
from tilesmith.tuner.task_space import TaskSpace

RESULTS = Path(__file__).parent / "results"
ROUNDS = 9
CONFIGS = 3  # of each sketch that is checked: its default and random ones
ROUND_SECONDS = 0.03
TRIALS_A_SECOND = 15.0
TUNING = 25.0  # seconds for one row


@dataclass
class Result:
    """One row: seconds of one run (median over rounds), ratios to the fastest peer with quartiles, share of the copy."""

    name: str
    seconds: float = 0.0
    figure: str = ""
    peers: dict[str, float] = field(default_factory=dict)
    ratio: tuple[float, float, float] | None = None  # lower quartile, median, upper quartile
    copy_share: float | None = None  # of the speed of a copy that moves as many bytes
    copy_seconds: float = 0.0
    trials: int = 0
    trials_a_second: float = 0.0
    kernel: str = ""  # registers, local memory, occupancy
    bars: dict[str, bool] = field(default_factory=dict)
    problem: str = ""


@dataclass
class Report:
    """All that was found, as it is written to the file."""

    device: str
    target: str
    clocks: str
    copy_bandwidth: float = 0.0
    checked: int = 0
    wrong: list[str] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    rows: list[Result] = field(default_factory=list)
    seconds: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole check; 1 when a kernel was wrong. Bars that are missed are shown and are no error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="in the emulator, at small sizes")
    parser.add_argument("--only", default="", help="rows and programs whose name contains this")
    parser.add_argument("--trials", type=int, default=0, help="of each row; default 160, or 4 with --small")
    parser.add_argument("--seconds", type=float, default=450.0, help="after which no row is begun")
    parser.add_argument("--out", type=Path, help="the JSON file; default benchmarks/results/gpu-*.json")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TILESMITH_CACHE", folder)
        report = check(options, Path(folder))
    name = "emulator" if options.small else report.device.replace(" ", "-").lower()
    path = options.out or RESULTS / f"gpu-{name}.json"
    path.write_text(json.dumps(asdict(report), indent=1) + "\n")
    print(f"\nwritten to {path}; {report.seconds:.0f} s; {len(report.wrong)} wrong of {report.checked} checked")
    return 1 if report.wrong else 0


def check(options: argparse.Namespace, folder: Path) -> Report:
    """Both parts, one after the other."""
    started = time.monotonic()
    target = parse_target("cuda:emulator" if options.small else own_target(_gpu()))
    device: Any = open_device(device_name(target))
    facts = getattr(device.port, "device", None)
    report = Report(facts.name if facts else device.name, target.text, clocks(facts.bus) if facts else "")
    wanted = [(name, program) for name, program in correctness_programs() if options.only in name]
    check_rules(wanted, target, report, configs=1 if options.small else CONFIGS)
    report.copy_bandwidth = copy_bandwidth(device, 1 << (20 if options.small else 30))
    print(f"copy bandwidth {report.copy_bandwidth / 1e9:.0f} GB/s (read and written); {report.clocks}")
    for row in ROWS:
        if options.only not in row.name:
            continue
        if time.monotonic() - started > options.seconds:
            report.rows.append(Result(row.name, problem="not begun: the time is over"))
            continue
        report.rows.append(measured(row, options, target, device, folder))
        print(line_of(report.rows[-1]), flush=True)
    report.seconds = time.monotonic() - started
    return report


def _gpu() -> Any:
    found = gpus()
    if not found:
        sys.exit("no NVIDIA device is here: `--small` runs the same in the emulator")
    return found[0]


# ---- every rule against the oracle


def check_rules(programs: Sequence[tuple[str, Program]], target: Target, report: Report, configs: int) -> None:
    """Every sketch of every program, some configs each: builders compile ahead, a timer checks."""
    jobs: dict[int, tuple[str, Job]] = {}
    for name, program in programs:
        task = Task.of(program, target, 1)
        space = TaskSpace(task, default_ceilings(target, 1))
        for candidate in chosen(space, configs):
            number = len(jobs)
            job = Job(number, task.text, space.sketch_text(candidate.sketch), space.config(candidate), target.text, 1)
            jobs[number] = f"{name}: {space.sketches[candidate.sketch].title} {dict(job.config)}", job
    counts: Counter[str] = Counter()
    with LocalRunner(target.text, 1) as runner:
        waiting, flying = list(jobs), set[int]()
        while waiting or flying:
            while waiting and len(flying) < runner.capacity:
                number = waiting.pop(0)
                flying.add(number)
                runner.submit(jobs[number][1])
            for number, end in runner.collect(60):
                flying.discard(number)
                counts[str(end.status)] += 1
                if not end.ok and str(end.status) != "unstable":
                    message = end.failure.message if end.failure else ""
                    report.wrong.append(f"{jobs[number][0]}: {end.status}: {message}")
                    print(f"FAILED {report.wrong[-1]}", flush=True)
    report.checked, report.statuses = len(jobs), dict(counts)
    print(f"{len(jobs)} candidates of {len(programs)} programs: {dict(counts)}", flush=True)


def chosen(space: TaskSpace, count: int) -> list[Candidate]:
    """The default of each sketch where it is valid, and random ones."""
    rng = np.random.default_rng(0)
    found: dict[Candidate, None] = dict.fromkeys(defaults(space))
    for sketch in range(len(space.config_spaces)):
        drawn = sample(space, rng, sketch, max(count, 2))
        for row in range(min(len(drawn), count)):
            found[drawn.candidate(row)] = None
    return list(found)


# ---- speed


def copy_bandwidth(device: Any, size: int) -> float:
    """Bytes per second of a large copy on the device, read and written: the median of some, for people to see."""
    run = copying(device, 2 * size)
    return 2 * size / median(run(1) for _ in range(7))


def copying(device: Any, moved: int) -> Callable[[int], float]:
    """Seconds that so many copies take on the device, each of which reads and writes `moved` bytes together."""
    byte, size = np.dtype(np.uint8), max(1, moved // 2)
    source, target = device.empty((size,), byte), device.empty((size,), byte)
    return lambda count: float(device.port.timed(lambda: target.copy_from(source), count))


def measured(row: Row, options: argparse.Namespace, target: Target, device: Any, folder: Path) -> Result:
    """Tunes one row and compares it. Whatever goes wrong is written down, and the check goes on."""
    result = Result(row.name)
    try:
        program = row.make(**(row.small if options.small else row.sizes))
        tune(result, program, target, options.trials or (4 if options.small else 160), folder / "gpu.sqlite")
        compare(result, row, program, target, device, folder / "gpu.sqlite", options.small)
    except Exception as error:  # the other rows still count
        result.problem = f"{type(error).__name__}: {error}"
    return result


def tune(result: Result, program: Program, target: Target, trials: int, database: Path) -> None:
    """A search that needs no learned model."""
    started = time.monotonic()
    outcome = ts.tune(
        program,
        target=target,
        trials=trials,
        seconds=TUNING,
        strategy="descent",
        effort="quick",
        db=database,
        progress=False,
    )
    task = outcome.tasks[0]
    result.trials = sum(str(record.trial.purpose) == "search" for record in task.records)
    times = [record.trial.created for record in task.records]
    spent = max(times) - min(times) if len(times) > 1 else time.monotonic() - started
    result.trials_a_second = len(times) / max(spent, 1e-9)
    result.kernel = task.best.trial.measurement.device if task.best else ""


def compare(
    result: Result, row: Row, program: Program, target: Target, device: Any, database: Path, small: bool
) -> None:
    """Ours, torch's and a copy, in random order in each of several rounds."""
    kernel = ts.compile(program, target=target, db=database)
    values = random_inputs(program, 0)
    outputs = [program.tensors[name] for name in program.outputs]
    arrays = [device.upload(value) for value in values]
    arrays += [device.empty(tensor.shape, tensor.dtype.numpy) for tensor in outputs]
    moved = sum(value.nbytes for value in values) + sum(t.dtype.bytes * int(np.prod(t.shape)) for t in outputs)
    contenders: dict[str, Callable[[int], float]] = {
        "ours": lambda count: kernel.repeat(arrays, count),
        "copy": copying(device, moved),
    }
    if not small:
        contenders |= torch_contenders(row, values, device.port)
    times = in_turns(contenders, 1 if small else ROUNDS)
    judge(result, row, times, moved, program, small)


def judge(result: Result, row: Row, times: dict[str, list[float]], moved: int, program: Program, small: bool) -> None:
    """The figures of a row and its bars, from the times of all rounds."""
    ours, copies = times["ours"], times["copy"]
    peers = {name: found for name, found in times.items() if name not in ("ours", "copy")}
    result.seconds, result.copy_seconds = median(ours), median(copies)
    result.copy_share = median(c / o for c, o in zip(copies, ours, strict=True))
    work = f"{flops_of(program) / result.seconds / 1e12:.2f} TFLOP/s" if row.flops else ""
    result.figure = work or f"{moved / result.seconds / 1e9:.0f} GB/s"
    result.peers = {name: median(found) for name, found in peers.items()}
    if peers:
        fastest = peers[min(result.peers, key=lambda name: result.peers[name])]
        low, middle, high = quantiles([b / o for b, o in zip(fastest, ours, strict=True)], n=4, method="inclusive")
        result.ratio = low, middle, high
        result.bars[f">= {row.bar:.2f}x torch"] = middle >= row.bar
    if row.copy is not None and not small:
        result.bars[f">= {row.copy:.0%} of copy"] = result.copy_share >= row.copy
    if row.name == "matmul 1024" and not small:
        result.bars[f">= {TRIALS_A_SECOND:.0f} trials/s"] = result.trials_a_second >= TRIALS_A_SECOND


def flops_of(program: Program) -> int:
    """Two operations for each term of the stage with the most of them."""
    return 2 * max(int(np.prod([axis.extent for axis in stage.all_axes])) for stage in program.stages)


def torch_contenders(row: Row, values: Sequence[Any], port: Any) -> dict[str, Callable[[int], float]]:
    """torch's function, and what torch.compile makes of it; timed by the same events. None where torch is not here."""
    try:
        import torch
    except ImportError:
        return {}
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    tensors = [torch.from_numpy(value).cuda() for value in values]
    found: dict[str, Callable[[Any], Any]] = {"torch": row.peer}
    if row.compiled:
        try:
            compiled = torch.compile(row.peer)
            compiled(*tensors)
            found["torch.compile"] = compiled
        except Exception as error:  # no compiler there: eager torch stands alone
            print(f"torch.compile does not work here: {error}", flush=True)

    def timed(function: Callable[..., Any]) -> Callable[[int], float]:
        return lambda count: float(port.timed(lambda: function(*tensors), count))

    with torch.no_grad():
        return {name: timed(function) for name, function in found.items()}


def in_turns(contenders: dict[str, Callable[[int], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds of one run by contender, one entry for each round."""
    once = {name: min(run(1) for _ in range(3)) for name, run in contenders.items()}
    counts = {name: max(1, min(200, int(ROUND_SECONDS / max(seconds, 1e-6)))) for name, seconds in once.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    order, draw = list(contenders), random.Random(0)
    for _ in range(rounds):
        draw.shuffle(order)
        for name in order:
            times[name].append(contenders[name](counts[name]) / counts[name])
    return times


def line_of(result: Result) -> str:
    """One line of the table."""
    if result.problem:
        return f"{result.name:22} {result.problem.splitlines()[0]}"
    peers = ", ".join(f"{name} {seconds * 1e6:.0f} us" for name, seconds in result.peers.items())
    ratio = f"{result.ratio[1]:.2f}x ({result.ratio[0]:.2f} to {result.ratio[2]:.2f})" if result.ratio else ""
    bars = ", ".join(f"{bar}: {'yes' if held else 'NO'}" for bar, held in result.bars.items())
    share = f"{result.copy_share:.0%} of copy" if result.copy_share is not None else ""
    return (
        f"{result.name:22} {result.seconds * 1e6:9.1f} us  {result.figure:>14}  {share}  {ratio}  {peers}  "
        f"[{result.trials} trials, {result.trials_a_second:.0f}/s; {result.kernel.partition('; ')[2]}]  {bars}"
    )


if __name__ == "__main__":
    sys.exit(main())
