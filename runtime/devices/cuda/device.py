"""NVIDIA GPUs as devices: PTX is compiled by the driver, timed by events, and a context that a kernel broke is made anew."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from math import prod
from typing import Any

from ....codegen.artifact import Artifact, Launch
from ....common.errors import DeviceLost, EnvironmentFailure, KernelFault, OutOfDeviceMemory, TargetError
from ....common.forks import lock
from ....targets.cuda.devices import runs
from ....targets.target import parse_target
from ..base import Array
from ..driver import NO_MEMORY, REFUSED, STICKY, Driver, DriverError, FunctionFacts
from ..gpu import GpuDevice, Pointers
from ..memory_pool import MemoryPool, rounded
from . import flush
from .occupancy import blocks_of
from .opening import open_driver

_STATIC = 48 << 10  # bytes of dynamic shared memory that need no permission
_KEPT = 1 << 30  # bytes of freed memory that are kept for the next allocation of their size
_EVENTS = 64  # pairs of events under way


class CudaModule:
    """Loaded PTX: its kernels by symbol, and what the driver made of them."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.functions: dict[str, Any] = {}
        self.facts: dict[str, dict[str, int]] = {}


class CudaPort:
    """A GPU behind a driver (implements `gpu.Port`).

    `generation` counts how often the context was made anew: memory and code of earlier ones are gone. Errors of kernels come
    late, at whatever is asked next: `_flying` are the kernels that each stream was given last and nobody has waited for: they
    are to blame.
    """

    cuda = True

    def __init__(self, driver: Driver, number: int) -> None:
        self.name = f"cuda:{number}"
        self.generation = -1
        self.device = driver.facts()
        self._driver = driver
        self._lock = lock()
        self._here = threading.local()
        self._pool = MemoryPool(_KEPT)
        self._unused: list[Any] = []  # modules that nobody starts any more
        self._held: list[tuple[Any, Sequence[Any]]] = []  # events, and what is used until they happen
        self._flying: dict[int, str] = {}
        self._dead = ""  # why the context could not be made anew
        self._forget()

    def _forget(self) -> None:
        """Forgets what belonged to a context that is gone."""
        self.generation += 1
        self._pool.clear()
        self._unused.clear()
        self._held.clear()
        self._events: list[tuple[Any, Any]] = []
        self._turn: Any = None  # the event by which one stream waits for another
        self._flush: tuple[int, Any] | None = None
        self._flying.clear()

    # ---- memory

    def allocate(self, size: int, stream: int = 0) -> int:
        """See Port. What was freed before on this stream serves again."""
        size = rounded(size)
        with self._lock, self._entered("an allocation"):
            kept = self._pool.take(stream, size)
            if kept is not None:
                return kept
            if not (stream and self._driver.capturing(stream)):
                self._give_back(self._pool.surplus())
            pointer = self._allocate(size)
            self._pool.add(pointer, size)
            return pointer

    def _allocate(self, size: int) -> int:
        try:
            return self._driver.allocate(size)
        except DriverError as error:
            if error.code != NO_MEMORY:
                raise
        self._give_back(self._pool.surplus(all_of_it=True))
        try:
            return self._driver.allocate(size)
        except DriverError as error:
            if error.code != NO_MEMORY:
                raise
            raise OutOfDeviceMemory(
                f"{self.name} ({self.device.name}) has no memory left",
                expected=f"{size} bytes",
                found=f"{self._driver.free_memory()} bytes free",
            ) from None

    def _give_back(self, pointers: Iterator[int]) -> None:
        for pointer in pointers:
            self._driver.free(pointer)

    def free(self, pointer: int, stream: int = 0) -> None:
        """See Port."""
        with self._lock:
            self._pool.give(pointer, stream)

    def upload(self, pointer: int, array: Array, stream: int = 0) -> None:
        """See Port."""
        with self._entered("a copy to it"):
            self._driver.upload(pointer, array, stream)

    def download(self, array: Array, pointer: int, stream: int = 0) -> None:
        """See Port."""
        with self._entered("a copy from it"):
            self._driver.download(array, pointer, stream)
            self._flying.pop(stream, None)

    def copy(self, target: int, source: int, size: int, stream: int = 0) -> None:
        """See Port."""
        with self._entered("a copy"):
            self._driver.copy(target, source, size, stream)

    # ---- streams

    def order(self, stream: int, after: int) -> None:
        """See Port. A graph cannot wait for what is no part of it: whoever captures it has waited before."""
        with self._lock, self._entered("an event"):
            if any(one and self._driver.capturing(one) for one in (stream, after)):
                return
            if self._turn is None:
                self._turn = self._driver.event(timed=False)
            self._driver.record(self._turn, after)
            self._driver.wait(stream, self._turn)

    def capturing(self, stream: int) -> int:
        """See Port."""
        with self._entered("a question about a stream"):
            return self._driver.capturing(stream)

    def hold(self, owners: Sequence[Any], stream: int) -> None:
        """See Port."""
        with self._lock, self._entered("an event"):
            if stream and self._driver.capturing(stream):
                return  # its memory is the business of whoever keeps the graph
            self._held = [(event, kept) for event, kept in self._held if not self._driver.happened(event)]
            event = self._driver.event(timed=False)
            self._driver.record(event, stream)
            self._held.append((event, owners))

    # ---- kernels

    def load(self, artifact: Artifact) -> CudaModule:
        """See Port. The driver compiles the PTX here. Errors: TargetError for another device's code or code that the driver
        refuses, KernelFault for a kernel whose block does not fit."""
        if artifact.format != "ptx":
            raise TargetError("this artifact is no GPU code", expected="format 'ptx'", found=repr(artifact.format))
        target = parse_target(artifact.target)
        if not runs(target.level, self.device.capability):
            major, minor = self.device.capability
            raise TargetError(
                f"{self.name} cannot run code for {target.kind}:{target.level}",
                expected=f"code for sm_{major}{minor} or older",
                found=f"{self.device.name}, compute capability {major}.{minor}",
                advice="use the target 'cuda', which is the device that is here",
            )
        with self._entered(f"loading {artifact.name}"):
            self._unload_unused()
            loaded = CudaModule(self._module(artifact))
            for launch in (*artifact.launches, *artifact.prepare_launches):
                self._add(loaded, launch)
        return loaded

    def _module(self, artifact: Artifact) -> Any:
        try:
            return self._driver.load(artifact.code)
        except DriverError as error:
            if error.code not in REFUSED:
                raise
            version = re.search(rb"^\.version (\S+)", artifact.code, re.MULTILINE)
            raise TargetError(
                f"the driver refuses the PTX of kernel {artifact.symbol}",
                found=f"{error.code}: {error.log or 'no log'}",
                advice=f"the PTX is of version {version[1].decode()}; a newer driver may take it" if version else "",
            ) from None

    def _add(self, loaded: CudaModule, launch: Launch) -> None:
        function = self._driver.function(loaded.module, launch.symbol)
        facts = self._driver.describe(function)
        threads = prod(launch.block)
        if threads > facts.most_threads or launch.shared_bytes > self.device.block_shared:
            raise KernelFault(
                f"a block of kernel {launch.symbol} does not fit the device",
                expected=f"at most {facts.most_threads} threads with {facts.registers} registers each, and "
                f"{self.device.block_shared} bytes of shared memory",
                found=f"{threads} threads, {launch.shared_bytes} bytes",
            )
        if launch.shared_bytes > _STATIC:
            self._driver.allow_shared(function, launch.shared_bytes)
        loaded.functions[launch.symbol] = function
        loaded.facts[launch.symbol] = self._numbers(facts, threads, launch.shared_bytes)

    def _numbers(self, facts: FunctionFacts, threads: int, shared: int) -> dict[str, int]:
        shared += facts.shared_bytes
        return {
            "registers": facts.registers,
            "local_bytes": facts.local_bytes,
            "shared_bytes": shared,
            "blocks": blocks_of(self.device, facts.registers, threads, shared),
        }

    def unload(self, module: CudaModule) -> None:
        """See Port. It is given back when the next one is loaded: that waits anyway."""
        self._unused.append(module.module)

    def _unload_unused(self) -> None:
        if self._unused:
            self._driver.synchronize()
        while self._unused:
            self._driver.unload(self._unused.pop())

    def facts(self, module: CudaModule) -> dict[str, dict[str, int]]:
        """See Port."""
        return module.facts

    def launch(self, module: CudaModule, launch: Launch, pointers: Pointers, read_only: int, stream: int = 0) -> None:
        """See Port."""
        x, y, z = (*launch.grid, 1, 1, 1)[:3]
        a, b, c = (*launch.block, 1, 1, 1)[:3]
        function = module.functions[launch.symbol]
        with self._entered(f"kernel {launch.symbol}"):
            self._driver.launch(function, (x, y, z), (a, b, c), launch.shared_bytes, pointers, stream)
        self._flying[stream] = launch.symbol

    def timed(self, run: Callable[[], None], count: int) -> float:
        """See Port: each run between two events of its own, behind a read of twice the L2, which empties it and gives the
        host time to ask for what follows."""
        seconds = 0.0
        with self._entered("a timed kernel"):
            self._prepare_flush()
            while len(self._events) < min(count, _EVENTS):
                self._events.append((self._driver.event(timed=True), self._driver.event(timed=True)))
            for start in range(0, count, _EVENTS):
                pairs = self._events[: min(_EVENTS, count - start)]
                for first, last in pairs:
                    self._read_flush()
                    self._driver.record(first, 0)
                    run()
                    self._driver.record(last, 0)
                seconds += sum(self._driver.seconds(first, last) for first, last in pairs)
            self._flying.pop(0, None)
        return seconds

    def _prepare_flush(self) -> None:
        """Zeros of twice the L2, and the kernel that reads them; nothing where there is no memory for them."""
        if self._flush is None and self.device.l2:
            try:
                pointer = self.allocate(2 * self.device.l2)
            except OutOfDeviceMemory:
                return
            function = self._driver.function(self._driver.load(flush.PTX.encode()), flush.SYMBOL)
            self._flush = pointer, function
            self._driver.fill(pointer, 2 * self.device.l2, 0)
            self._read_flush()  # what was just written is not written back later

    def _read_flush(self) -> None:
        if self._flush is not None:
            pointer, function = self._flush
            grid = flush.blocks(2 * self.device.l2), 1, 1
            self._driver.launch(function, grid, (flush.THREADS, 1, 1), 0, (pointer,), 0)

    def synchronize(self) -> None:
        """See Port."""
        with self._entered("waiting"):
            self._driver.synchronize()
            self._flying.clear()

    # ---- errors

    @contextmanager
    def _entered(self, what: str) -> Iterator[None]:
        """Calls of the driver, in its context; what goes wrong becomes an error of ours. A broken context is made anew."""
        if self._dead:
            raise DeviceLost(f"{self.name} cannot be used any more", found=self._dead, advice=_NEW_PROCESS)
        depth = getattr(self._here, "depth", 0)
        try:
            if not depth:
                self._driver.push()
            self._here.depth = depth + 1
            try:
                yield
            except DriverError as error:
                if error.code in STICKY:
                    raise self._recovered(error, what) from None
                if error.code == NO_MEMORY:
                    raise OutOfDeviceMemory(f"{self.name} has no memory left for {what}", found=str(error)) from None
                raise EnvironmentFailure(f"{what} failed on {self.name}", found=str(error)) from None
            finally:
                self._here.depth = depth
                if not depth:
                    with suppress(DriverError):
                        self._driver.pop()
        except DriverError as error:
            raise DeviceLost(f"{self.name} cannot be entered", found=str(error), advice=_NEW_PROCESS) from None

    def _recovered(self, error: DriverError, what: str) -> KernelFault | DeviceLost:
        """Makes the context anew, if that can be done; returns the error that tells who is to blame."""
        guilty, advice = (
            " or ".join(self._flying.values()),
            "arrays on the device are lost; what comes next works on new ones",
        )
        self._forget()
        try:
            self._driver.reset()
        except DriverError as again:
            self._dead = f"it does not recover from an error of {guilty or 'something else'}: {error}; then {again}"
            advice = f"it does not recover: {again}. {_NEW_PROCESS}"
        words = error.code.removeprefix("CUDA_ERROR_").lower().replace("_", " ")
        if guilty:
            return KernelFault(f"kernel {guilty} failed on {self.name}: {words}", found=str(error), advice=advice)
        problem = f"{self.name} was broken before {what}: {words}"
        return DeviceLost(problem, found=str(error), advice=advice)


_NEW_PROCESS = "end this process; a new one can use the device"


@cache
def open_gpu(number: int = 0) -> GpuDevice:
    """A GPU by the driver's number. Errors: MissingExtra without a binding, EnvironmentFailure without driver or device."""
    return GpuDevice(CudaPort(open_driver(number), number))
