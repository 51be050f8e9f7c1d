"""The machine's own best as one more contender: what the calibration loops reach in the same rounds as the kernels.

The speed of a shared machine drifts by ten percent within minutes, so a ceiling that was measured an hour ago says little about
a kernel that is measured now. The loop is that of the row's own use of memory, over as many bytes: a row that reads x and
writes y as much is held against copies, one that reads two against triads, one that only reads against reads; with ordinary
stores and with stores past the caches, reads with and without hints that ask for memory ahead: the best counts. What is bound
by arithmetic is held against multiply-adds on registers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilesmith.tensor.program import Program

CEILING = "ceiling"
_SAMPLE = 5e-3  # seconds


def ceiling_of(program: Program, threads: int) -> tuple[Callable[[float], tuple[float, int]], str]:
    """(what runs the loops for some seconds and gives (the least seconds that the program can take, samples), their name)."""
    from tilesmith.measure.calibrate.calibrate import Loops, ceilings
    from tilesmith.measure.calibrate.loops import STREAMS
    from tilesmith.targets.ceilings import use_of, ways_of
    from tilesmith.targets.target import parse_target
    from tilesmith.tuner.roofline import program_work

    target = parse_target("host")
    work, known = program_work(program), ceilings(target, threads)
    loops = Loops(target, threads, _SAMPLE, 1)

    def arithmetic() -> float:
        return work.arithmetic_seconds(known) * known.flops["f32"] / loops.arithmetic("f32")

    if not work.is_bound_by_memory(known):
        return lambda seconds: _best([arithmetic], seconds), "arithmetic"
    use = use_of(work.bytes, work.written)
    streams = [stream for stream in STREAMS if stream.name in ways_of(use)]
    kinds = [lambda stream=stream: work.bytes / loops.speed(stream, work.bytes) for stream in streams]
    return lambda seconds: _best(kinds, seconds), f"{use} of {work.bytes / 1e6:.1f} MB"


def _best(kinds: list[Callable[[], float]], seconds: float) -> tuple[float, int]:
    """(the smallest median of the samples of each kind, number of samples)."""
    medians, count = [], 0
    for kind in kinds:
        samples: list[float] = []
        kind()  # memory and threads are warm after it
        end = time.perf_counter() + seconds / len(kinds)
        while not samples or time.perf_counter() < end:
            samples.append(kind())
        medians.append(median(samples))
        count += len(samples)
    return min(medians), count
