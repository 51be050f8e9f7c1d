"""Measures Ceilings: the highest speeds that loops made for nothing else reach on this machine, kept per machine.

Arithmetic is timed on registers alone; memory by reading, writing, copying and triads, through the caches and past them,
over working sets from level 1 to well beyond the last cache. The highest figure for a set counts, and a smaller set is
never slower than a larger one. All threads run at once, each on a core and a part of the set of its own.

On a machine that is shared, a neighbour may have half of a core for seconds: where arithmetic is not as fast after all loops
as before them, they run again. What is still too low is seen when a kernel is faster, and is then corrected (`measured_again`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...common.errors import EnvironmentFailure
from ...common.private import make_private_folder, read_private
from ...common.settings import CACHE
from ...targets.ceilings import LOADED, MATRIX, VISITED, Ceilings, Curve, default_ceilings
from ...targets.host import usable_cores
from ...targets.matrix_instructions import BF16_TILES
from ...targets.matrix_unit import allow_matrix_unit, tile_configuration
from ...targets.target import Target, check_runs_here, parse_target
from ..machine import machine_identity, machine_key
from ..process.child import Child, child_setup
from ..process.environment import builder_environment
from ..process.station import Answered, Station, WorkItem
from ..process.worker import Link
from .loops import (
    OPERATIONS,
    STEP,
    STREAMS,
    SUMS,
    TILE_BYTES,
    TILE_FLOPS,
    TILE_PRODUCTS,
    VISIT_STRIDE,
    Stream,
    accumulators,
    arithmetic_loop,
    matrix_loop,
    stream_loop,
    visiting_loop,
)

if TYPE_CHECKING:
    from ...runtime.devices.base import Array, LoadedKernel

_VERSION = 7  # raise it when the loops change: kept figures of older loops do not count
_SHORTEST = 2e-3  # seconds of one sample
_SAMPLES = 4
_MEASURED = {"f32": 4, "f64": 8}  # dtype -> bytes
_WIDEST = 64  # bytes of a vector
_NUMBERS = 1 << 16  # random ones, which fill what is larger again and again
_ROUNDS = 4  # at most
_STEADY = 1.05  # times so much, or through it: arithmetic before and after a round that nobody has disturbed
_VISIT = "visit"
_LIMIT = 60.0  # seconds after which a calibration is given up

Sample = Callable[[int], NDArray[np.float64]]  # times -> seconds of that many repetitions, for each thread


def ceilings(target: Target, threads: int) -> Ceilings:
    """The ceilings of this machine: measured now, or the figures kept from before; those of a GPU are its target's.

    Raises TargetError if this machine is not such a target, EnvironmentFailure if the loops do not run.
    """
    check_runs_here(target)
    if target.is_gpu:  # the loops here are a processor's
        return default_ceilings(target, threads)
    found = _kept(target, threads)
    if found is None:
        found = _in_child(target, threads)
        _keep(_path(target, threads), found.to_json())
    return found


def known_ceilings(target: Target, threads: int) -> Ceilings:
    """The figures kept from before, or, without any, what the target's own numbers say. Measures nothing."""
    return _kept(target, threads) or default_ceilings(target, threads)


def _kept(target: Target, threads: int) -> Ceilings | None:
    """The figures in the cache; what older versions did not measure follows from the target's own numbers."""
    try:
        return _read((read_private(_path(target, threads)) or b"").decode(), target, threads)
    except (ValueError, KeyError):
        return None


@lru_cache(maxsize=8)
def _read(text: str, target: Target, threads: int) -> Ceilings:
    """Reads the text of a file of the cache. Errors: ValueError, KeyError."""
    found = Ceilings.from_json(text)
    return replace(found, flops=_completed(target, threads, found.flops))


def _path(target: Target, threads: int) -> Path:
    machine = machine_key(machine_identity())
    return CACHE.value() / "ceilings" / f"{machine[:16]}-{target.key[:16]}-{threads}-v{_VERSION}.json"


def _keep(path: Path, text: str) -> None:
    """Written beside and renamed, so that nobody reads half of it. A cache that cannot be written is no error."""
    try:
        make_private_folder(path.parent)
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_text(text)
        beside.chmod(0o600)
        beside.replace(path)
    except OSError:
        pass


class Calibrator:
    """Measures ceilings in a child process (a `worker.Handler`): the loops pin threads, and touch much memory."""

    def handle(self, request: tuple[str, int], link: Link) -> Ceilings:
        """The ceilings of (target text, threads)."""
        link.stage("calibrate")
        text, threads = request
        return measure_ceilings(parse_target(text), threads)


def _in_child(target: Target, threads: int) -> Ceilings:
    setup = child_setup(f"{__package__}.calibrate:Calibrator", {})
    station = Station(lambda: Child(setup, builder_environment()), _LIMIT, 1, lambda _: False)
    try:
        station.give(WorkItem(None, (target.text, threads), {"calibrate": _LIMIT}))
        event = station.wait()
    finally:
        station.close()
    if isinstance(event, Answered) and isinstance(event.value, Ceilings):
        return event.value
    raise EnvironmentFailure("the calibration loops do not run on this machine", found=str(event))


def measure_ceilings(target: Target, threads: int) -> Ceilings:
    """Measures now, in this process; takes some seconds."""
    sizes = _sizes(target, threads)
    memory: dict[tuple[str, int], float] = {}
    with Loops(target, threads, _SHORTEST, _SAMPLES) as loops:
        flops = _arithmetic(loops, target)
        for _ in range(_ROUNDS):
            memory = _higher(_memory(loops, sizes), memory)
            after = _arithmetic(loops, target)
            steady = all(speed < _STEADY * after[kind] < _STEADY**2 * speed for kind, speed in flops.items())
            flops = _higher(flops, after)
            if steady:
                break
    streams = {stream.name: _curve(sizes, [memory[stream.name, size] for size in sizes]) for stream in STREAMS}
    highest = tuple((size, max(dict(curve)[size] for curve in streams.values())) for size in sizes)
    visits = tuple((pages, 1 / memory[_VISIT, pages]) for pages in VISITED)
    return Ceilings(_completed(target, threads, flops), highest, threads, streams, visits)


def measured_again(target: Target, known: Ceilings) -> Ceilings:
    """Measures arithmetic and the nearest cache in this process: what is known, higher where they are faster now. That is kept.
    Takes some tenths of a second."""
    size = _sizes(target, known.threads)[0]
    with Loops(target, known.threads, _SHORTEST, _SAMPLES) as loops:
        flops, nearest = _arithmetic(loops, target), {stream.name: loops.speed(stream, size) for stream in STREAMS}
    flops = _higher(_completed(target, known.threads, flops), known.flops)
    streams = {name: _raised(curve, nearest[name]) for name, curve in known.streams.items()}
    found = replace(known, flops=flops, bandwidth=_raised(known.bandwidth, max(nearest.values())), streams=streams)
    _keep(_path(target, known.threads), found.to_json())
    return found


def _memory(loops: Loops, sizes: Sequence[int]) -> dict[tuple[str, int], float]:
    """(kind of loop, working set) -> bytes per second; (_VISIT, pages) -> lines of memory per second."""
    found = {(stream.name, size): loops.speed(stream, size) for size in reversed(sizes) for stream in STREAMS}
    return {**found, **{(_VISIT, pages): 1 / loops.visit(pages) for pages in VISITED}}


def _arithmetic(loops: Loops, target: Target) -> dict[str, float]:
    flops = {dtype: loops.arithmetic(dtype) for dtype in _MEASURED} | {LOADED: loops.arithmetic("f32", loaded=True)}
    if target.has_matrix_unit and allow_matrix_unit():
        flops[MATRIX] = loops.matrix()
    return flops


def _higher(some: Mapping[Any, float], others: Mapping[Any, float]) -> dict[Any, float]:
    return {key: max(speed, others.get(key, 0.0)) for key, speed in some.items()}


def _raised(curve: Curve, nearest: float) -> Curve:
    """The curve with its smallest working set at least so fast."""
    (size, speed), *rest = curve
    return ((size, max(speed, nearest)), *rest)


def _curve(sizes: Sequence[int], speeds: Sequence[float]) -> Curve:
    """(working set, bytes per second): see the head."""
    ceiling = np.maximum.accumulate(speeds[::-1])[::-1]
    return tuple((size, float(speed)) for size, speed in zip(sizes, ceiling, strict=True))


def _completed(target: Target, threads: int, flops: Mapping[str, float]) -> dict[str, float]:
    """Returns what was measured; for the rest the target's own numbers, corrected by how they compare for f32."""
    usual = default_ceilings(target, threads).flops
    scaled = {dtype: speed * flops["f32"] / usual["f32"] for dtype, speed in usual.items()}
    return {**scaled, **flops}


class Loops:
    """The calibration loops, ready to be run: each thread on a core and a part of the memory of its own.

    A sample lasts `shortest` seconds at least; of `samples` of them the best counts.
    """

    def __init__(self, target: Target, threads: int, shortest: float, samples: int) -> None:
        self._target, self._threads, self._shortest, self._samples = target, threads, shortest, samples
        self._pool = ThreadPoolExecutor(threads)
        self._barrier = threading.Barrier(threads)
        cores = sorted(os.sched_getaffinity(0)) if threads <= usable_cores() else []
        self._cores = cores[:: max(1, len(cores) // threads)]
        self._kernels: dict[str, LoadedKernel] = {}
        self._buffers: list[Array] = []

    def __enter__(self) -> Loops:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def arithmetic(self, dtype: str, loaded: bool = False) -> float:
        """Operations per second of all threads; they share nothing, so each counts with its own best."""
        target = self._target
        kernel = self._kernel(f"flops {dtype} {loaded}", "flops", lambda: arithmetic_loop(target, dtype, loaded))
        size = target.vector_bits // 8 * (accumulators(target) + 2)
        buffers = [_touched(size).view(np.float32 if dtype == "f32" else np.float64) for _ in range(self._threads)]
        for buffer in buffers:
            buffer.fill(0.5)  # x * 0.5 + 0.5 stays near 1: no infinities, no subnormal numbers

        def sample(times: int) -> NDArray[np.float64]:
            return self._run(kernel, [(b, np.array([0, times], np.int64)) for b in buffers])

        operations = 2 * OPERATIONS * accumulators(target) * target.vector_bits // 8 // _MEASURED[dtype]
        return float((operations / self._timed(sample, 4 * self._samples).min(axis=0)).sum())

    def matrix(self) -> float:
        """Operations per second of all threads on matrix units, which this process may use."""
        kernel = self._kernel(MATRIX, "tiles", matrix_loop)
        buffers = [_touched((3 + SUMS) * TILE_BYTES) for _ in range(self._threads)]
        numbers = np.random.default_rng(0).standard_normal(TILE_BYTES, np.float32)  # two tiles of bfloat16
        for buffer in buffers:
            buffer[:64] = np.frombuffer(tile_configuration(BF16_TILES), np.uint8)
            buffer[TILE_BYTES : 3 * TILE_BYTES].view(np.uint16)[:] = numbers.view(np.uint32) >> 16

        def sample(times: int) -> NDArray[np.float64]:
            return self._run(kernel, [(b, np.array([0, times], np.int64)) for b in buffers])

        operations = TILE_FLOPS * TILE_PRODUCTS * SUMS
        return float((operations / self._timed(sample, 4 * self._samples).min(axis=0)).sum())

    def speed(self, stream: Stream, size: int) -> float:
        """Bytes per second of all threads together, over a working set of about `size` bytes: the best of some samples."""
        step = STEP * self._target.vector_bits // 8
        bytes_of_one = max(1, size // self._threads // stream.streams // step) * step
        kernel = self._kernel(stream.name, stream.name, lambda: stream_loop(self._target, stream))
        slowest = self._passes(kernel, bytes_of_one, bytes_of_one * stream.streams)
        return float(bytes_of_one * stream.streams * self._threads / slowest)

    def visit(self, pages: int) -> float:
        """Seconds that a thread takes for a line, while all visit so many pages in turn, of as much memory as for the most."""
        kernel = self._kernel(f"{_VISIT} {pages}", "visit", lambda: visiting_loop(self._target, pages))
        size = max(VISITED) * VISIT_STRIDE
        return self._passes(kernel, size, size) * self._target.caches[0].line / size

    def _passes(self, kernel: LoadedKernel, length: int, size: int) -> float:
        """Seconds of a pass by all threads: each over `size` bytes of its own, in streams of a `length`. The best sample."""
        if not self._buffers or self._buffers[0].size < size:
            self._buffers = [_touched(size) for _ in range(self._threads)]

        def sample(times: int) -> NDArray[np.float64]:
            return self._run(kernel, [(b, _numbers(length, times)) for b in self._buffers])

        return float(self._timed(sample, self._samples).max(axis=1).min())

    def _kernel(self, key: str, name: str, ir: Callable[[], str]) -> LoadedKernel:
        if key not in self._kernels:
            self._kernels[key] = _load(self._target, name, ir())
        return self._kernels[key]

    def _run(self, kernel: LoadedKernel, arrays: Sequence[Sequence[Array]]) -> NDArray[np.float64]:
        """float64[threads]: what each thread takes to run the kernel once on its arrays; they begin together."""
        return np.array(list(self._pool.map(lambda t: self._one(kernel, arrays[t], t), range(self._threads))))

    def _one(self, kernel: LoadedKernel, arrays: Sequence[Array], thread: int) -> float:
        if self._cores:
            os.sched_setaffinity(0, {self._cores[thread]})
        self._barrier.wait()
        return kernel.run_repeat(arrays, 1)

    def _timed(self, sample: Sample, count: int) -> NDArray[np.float64]:
        """float64[count, threads]: seconds of one repetition."""
        times, seconds = 1, sample(1)
        while seconds.max() < self._shortest:
            wanted = 1.2 * self._shortest / max(float(seconds.max()), 1e-9)
            times = max(times + 1, int(times * min(64.0, wanted)))
            seconds = sample(times)
        return np.array([seconds, *(sample(times) for _ in range(count - 1))]) / times


def _sizes(target: Target, threads: int) -> list[int]:
    """Working sets of all threads together, from a quarter of level 1 to eight times what all caches hold, doubling."""
    held = [cache.bytes * -(-threads // cache.shared_by) for cache in target.caches]
    size, last = held[0] // 4, min(8 * max(held), 1 << 29)
    sizes = [size]
    while sizes[-1] < last:
        sizes.append(sizes[-1] * 2)
    return sizes


def _numbers(bytes_of_one: int, times: int) -> Array:
    """The second argument of a loop, with room for what a reading loop leaves, one vector further."""
    numbers = np.zeros(_WIDEST // 8 * (STEP + 1), np.int64)
    numbers[:2] = bytes_of_one, times
    return numbers


def _touched(size: int) -> Array:
    """Bytes with random numbers in them, the same ones again and again: copies of zeros may be faster than others."""
    from ...runtime.devices.cpu.memory import aligned_array

    buffer = aligned_array((size,), np.dtype(np.uint8))
    numbers = np.random.default_rng(0).standard_normal(_NUMBERS, np.float32).view(np.uint8)
    for start in range(0, size, numbers.size):
        part = buffer[start : start + numbers.size]
        part[:] = numbers[: part.size]
    return buffer


def _load(target: Target, name: str, ir: str) -> LoadedKernel:
    from ...codegen.artifact import Artifact, BufferSpec, Launch
    from ...codegen.backends.cpu import compile_object
    from ...runtime.devices.cpu.device import CpuDevice

    inputs = (BufferSpec("buffer", "u8", ()), BufferSpec("numbers", "i64", (2,)))
    code = compile_object(ir, target).code
    artifact = Artifact(name, target.text, 1, "object", code, name, inputs, (), (), 0, 0, (Launch(name),))
    return CpuDevice().load(artifact)
