"""NVIDIA GPUs as devices: PTX is compiled by the driver, timed by events, and a context that a kernel broke is made anew."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any

from ...codegen.artifact import Artifact, Launch
from ...common.errors import EnvironmentFailure, KernelFault, OutOfDeviceMemory, TargetError
from ...targets.nvidia import runs
from ...targets.target import parse_target
from .base import Array
from .driver import NO_MEMORY, REFUSED, STICKY, Driver, DriverError, FunctionFacts, open_driver
from .gpu import GpuDevice, Pointers
from .occupancy import blocks_of

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

    `generation` counts how often the context was made anew: memory and code of earlier ones are gone.
    """

    cuda = True

    def __init__(self, driver: Driver, number: int) -> None:
        self.name = f"cuda:{number}"
        self.generation = 0
        self.device = driver.facts()
        self._driver = driver
        self._lock = threading.RLock()
        self._sizes: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}
        self._free_bytes = 0
        self._events: list[tuple[Any, Any]] = []
        self._flush = 0

    # ---- memory

    def allocate(self, size: int) -> int:
        """See Port. What was freed before serves again: work on one stream is in order."""
        size = -(-size // 512) * 512
        with self._lock, self._entered("an allocation"):
            if self._free.get(size):
                self._free_bytes -= size
                pointer = self._free[size].pop()
            else:
                pointer = self._allocate(size)
            self._sizes[pointer] = size
            return pointer

    def _allocate(self, size: int) -> int:
        try:
            return self._driver.allocate(size)
        except DriverError as error:
            if error.code != NO_MEMORY:
                raise
        self._forget_free()
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

    def _forget_free(self) -> None:
        for pointers in self._free.values():
            for pointer in pointers:
                self._driver.free(pointer)
        self._free.clear()
        self._free_bytes = 0

    def free(self, pointer: int) -> None:
        """See Port."""
        with self._lock:
            size = self._sizes.pop(pointer, 0)
            if size and self._free_bytes + size <= _KEPT:
                self._free.setdefault(size, []).append(pointer)
                self._free_bytes += size
            elif size:
                with self._entered("a release"):
                    self._driver.free(pointer)

    def upload(self, pointer: int, array: Array) -> None:
        """See Port."""
        with self._entered("a copy to it"):
            self._driver.upload(pointer, array)

    def download(self, array: Array, pointer: int) -> None:
        """See Port."""
        with self._entered("a copy from it, or a kernel before that"):
            self._driver.download(array, pointer)

    def copy(self, target: int, source: int, size: int) -> None:
        """See Port."""
        with self._entered("a copy"):
            self._driver.copy(target, source, size)

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

    def facts(self, module: CudaModule) -> dict[str, dict[str, int]]:
        """See Port."""
        return module.facts

    def launch(self, module: CudaModule, launch: Launch, pointers: Pointers, read_only: int) -> None:
        """See Port."""
        x, y, z = (*launch.grid, 1, 1, 1)[:3]
        a, b, c = (*launch.block, 1, 1, 1)[:3]
        with self._entered(f"kernel {launch.symbol}"):
            self._driver.launch(module.functions[launch.symbol], (x, y, z), (a, b, c), launch.shared_bytes, pointers)

    def timed(self, run: Callable[[], None], count: int) -> float:
        """See Port: each run between two events of its own, behind a write of twice the L2, which empties it and gives the
        host time to ask for what follows."""
        seconds = 0.0
        with self._entered("a timed kernel"):
            flush = self._flush_buffer()
            while len(self._events) < min(count, _EVENTS):
                self._events.append((self._driver.event(), self._driver.event()))
            for start in range(0, count, _EVENTS):
                pairs = self._events[: min(_EVENTS, count - start)]
                for first, last in pairs:
                    if flush:
                        self._driver.fill(flush, 2 * self.device.l2)
                    self._driver.record(first)
                    run()
                    self._driver.record(last)
                seconds += sum(self._driver.seconds(first, last) for first, last in pairs)
        return seconds

    def _flush_buffer(self) -> int:
        if not self._flush and self.device.l2:
            try:
                self._flush = self.allocate(2 * self.device.l2)
            except OutOfDeviceMemory:
                return 0
        return self._flush

    def synchronize(self) -> None:
        """See Port."""
        with self._entered("a kernel"):
            self._driver.synchronize()

    # ---- errors

    @contextmanager
    def _entered(self, what: str) -> Iterator[None]:
        """Calls of the driver; what goes wrong becomes an error of ours. A broken context is made anew."""
        try:
            self._driver.enter()
            yield
        except DriverError as error:
            if error.code in STICKY:
                self._recover(error, what)
                raise KernelFault(
                    f"{what} failed on {self.name}: {error.code.removeprefix('CUDA_ERROR_').lower().replace('_', ' ')}",
                    found=str(error),
                    advice="arrays on the device are lost; what comes next works on new ones",
                ) from None
            if error.code == NO_MEMORY:
                raise OutOfDeviceMemory(f"{self.name} has no memory left for {what}", found=str(error)) from None
            raise EnvironmentFailure(f"{what} failed on {self.name}", found=str(error)) from None

    def _recover(self, error: DriverError, what: str) -> None:
        self.generation += 1
        self._sizes.clear()
        self._free.clear()
        self._free_bytes = 0
        self._events.clear()
        self._flush = 0
        try:
            self._driver.reset()
        except DriverError as again:
            raise EnvironmentFailure(
                f"{self.name} does not recover from an error of {what}",
                found=f"{error}; then {again}",
                advice="end this process; a new one can use the device",
            ) from None


@cache
def cuda_device(number: int = 0) -> GpuDevice:
    """A GPU by the driver's number. Errors: MissingExtra without a binding, EnvironmentFailure without driver or device."""
    return GpuDevice(CudaPort(open_driver(number), number))
