"""The emulator: a GPU that is this machine's processor, for tests and for looking at kernels. It is correct, not fast.

It runs the objects of codegen/emulator/kernels.py. Memory of the device is memory of this process, in allocations of its own;
every access of a kernel is checked for bounds, alignment and races, shared memory is filled with NaN before each block, threads
and blocks run in random order if a seed is given. What is wrong is a KernelFault that names kernel, thread, buffer and
instruction. Times are wall clock of the emulation and say nothing about any GPU.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable, Sequence
from functools import cache
from math import gcd, prod
from typing import Any

import numpy as np

from ...codegen.artifact import Artifact, Launch
from ...codegen.emulator.kernels import GRAIN, RUNTIME, SITES, runtime_object
from ...codegen.emulator.kernels import SHARED as SHARED_MEMORY
from ...codegen.emulator.layout import (
    ABSENT_LANE,
    DIVERGED,
    MISALIGNED,
    OUTSIDE,
    RACE,
    READ_ONLY,
    SHARED,
    STRUCTS,
    STUCK,
    struct_bytes,
)
from ...common.errors import EnvironmentFailure, KernelFault, OutOfDeviceMemory, TargetError
from ...common.forks import lock
from ...targets.target import parse_target
from .base import Array
from .cpu.jit import LINKING, jit
from .cpu.memory import address, aligned_array
from .gpu import GpuDevice, Pointers

MEMORY = 4 << 30  # bytes that it pretends to have
_RACES = 8 << 20  # bytes of a launch's buffers up to which races are looked for: a record of each byte takes 32
_ALIGNMENT = 256
_CTYPES = {"i32": ctypes.c_uint32, "i64": ctypes.c_uint64, "ptr": ctypes.c_void_p}
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_numbers = itertools.count()


def _structure(name: str) -> type[ctypes.Structure]:
    fields = [(field, _CTYPES[kind]) for field, kind in STRUCTS[name].items()]
    return type(name.capitalize(), (ctypes.Structure,), {"_fields_": fields})


_Launch, _Range = _structure("launch"), _structure("range")


@cache
def _runtime() -> Any:
    """The emulator's own functions, linked once in a process: addresses by name."""
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_object_img(runtime_object()).add_current_process()
    for name in RUNTIME:
        builder.export_symbol(name)
    with LINKING:
        return builder.link(jit(), "emulator")


class EmulatedModule:
    """A loaded object: its entries by symbol, and the texts of its places."""

    def __init__(self, artifact: Artifact) -> None:
        import llvmlite.binding as llvm

        symbols = sorted({one.symbol for one in (*artifact.launches, *artifact.prepare_launches)})
        builder = llvm.JITLibraryBuilder().add_object_img(artifact.code).add_current_process()
        for name in RUNTIME:
            builder.import_symbol(name, _runtime()[name])
        for name in (*symbols, SITES, GRAIN, SHARED_MEMORY):
            builder.export_symbol(name)
        with LINKING:
            try:
                self._library = builder.link(jit(), f"emulated.{next(_numbers)}")
            except RuntimeError as error:
                raise EnvironmentFailure("the emulated kernels could not be linked", found=str(error)) from error
        self.entries = {name: _ENTRY(self._library[name]) for name in symbols}
        text = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._library[SITES])()
        self.sites = ctypes.string_at(text or 0).decode().split("\n")
        self.shared: int = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._library[SHARED_MEMORY])() or 0
        self.grain: int = ctypes.CFUNCTYPE(ctypes.c_int32)(self._library[GRAIN])()
        self.lanes = parse_target(artifact.target).gpu.warp
        self.names = tuple(
            [spec.name for spec in (*artifact.inputs, *artifact.constants, *artifact.outputs)]
            + ["prepared", "workspace"]
        )


class EmulatorPort:
    """Shows the emulator as a GPU (implements `gpu.Port`).

    Args:
        seed: of the order in which threads and blocks run; 0: in their natural order.
        races: whether races between threads are looked for.
        name: of the device, by the backend whose level the emulator is there.
    """

    cuda = False
    generation = 0

    def __init__(self, seed: int = 1, races: bool = True, name: str = "emulator") -> None:
        self.name = name
        self._random = np.random.default_rng(seed) if seed else None
        self._races = races
        self._memory: dict[int, Array] = {}
        self._used = 0
        self._shadows: dict[int, Array] = {}
        self._now = 1  # synchronisations are numbered on and on, so that records of earlier launches are old
        self._lock = lock()

    # ---- memory

    def allocate(self, size: int, stream: int = 0) -> int:
        """The address of `size` new bytes. Errors: OutOfDeviceMemory."""
        with self._lock:
            if self._used + size > MEMORY:
                raise OutOfDeviceMemory(
                    "the emulator has no memory left", expected=f"{size} bytes", found=f"{MEMORY - self._used} free"
                )
            memory = aligned_array((max(size, 1),), np.dtype(np.uint8), _ALIGNMENT)[:size]
            self._memory[address(memory)] = memory
            self._used += size
            return address(memory)

    def free(self, pointer: int, stream: int = 0) -> None:
        """Gives an allocation back."""
        with self._lock:
            self._used -= self._memory.pop(pointer).nbytes
            self._shadows.pop(pointer, None)

    def upload(self, pointer: int, array: Array, stream: int = 0) -> None:
        """Copies a host array to the device."""
        ctypes.memmove(pointer, address(array), array.nbytes)

    def download(self, array: Array, pointer: int, stream: int = 0) -> None:
        """Copies from the device to a host array."""
        ctypes.memmove(address(array), pointer, array.nbytes)

    def copy(self, target: int, source: int, size: int, stream: int = 0) -> None:
        """Copies inside of the device's memory."""
        ctypes.memmove(target, source, size)

    # ---- streams: there is one, and all is done when a call returns

    def order(self, stream: int, after: int) -> None:
        """Does nothing."""

    def capturing(self, stream: int) -> int:
        """Returns 0: streams of the emulator are never captured."""
        return 0

    def hold(self, owners: Sequence[Any], stream: int) -> None:
        """Does nothing."""

    # ---- kernels

    def load(self, artifact: Artifact) -> EmulatedModule:
        """Links an object. Errors: TargetError, EnvironmentFailure."""
        if artifact.format != "emulated":
            raise TargetError(
                "this artifact is not for the emulator", expected="format 'emulated'", found=repr(artifact.format)
            )
        return EmulatedModule(artifact)

    def unload(self, module: EmulatedModule) -> None:
        """Does nothing: the linker frees what nobody holds."""

    def facts(self, module: EmulatedModule) -> dict[str, dict[str, int]]:
        """Returns nothing: the emulator has no registers."""
        return {}

    def launch(
        self, module: EmulatedModule, launch: Launch, pointers: Pointers, read_only: int, stream: int = 0
    ) -> None:
        """Runs one launch to its end. Errors: KernelFault."""
        with self._lock:
            state, keep = self._state(module, launch, pointers, read_only)
            module.entries[launch.symbol](ctypes.addressof(state))
            self._now = state.now
            del keep
        if state.error:
            raise _fault(module, launch, state)

    def timed(self, run: Callable[[], None], count: int) -> float:
        """Seconds of wall clock for `count` runs."""
        started = time.perf_counter()
        for _ in range(count):
            run()
        return time.perf_counter() - started

    def synchronize(self) -> None:
        """Does nothing: nothing is ever under way."""

    def _state(
        self, module: EmulatedModule, launch: Launch, pointers: Pointers, read_only: int
    ) -> tuple[Any, tuple[Any, ...]]:
        grid, block = _three(launch.grid), _three(launch.block)
        count, blocks = prod(block), prod(grid)
        arguments = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        sizes = [self._memory[p].nbytes if p else 0 for p in pointers]
        watched = self._races and sum(sizes[read_only:]) <= _RACES
        ranges = (_Range * (len(pointers) + 1))()
        for number, (pointer, size) in enumerate(zip(pointers, sizes, strict=True)):
            writable = number >= read_only
            shadow = self._shadow(pointer, size // module.grain + 1) if watched and writable and size else 0
            ranges[number] = _Range(pointer, pointer + size, shadow, writable, 0)
        shared = (
            self._shadow(module.shared, launch.shared_bytes // module.grain + 1)
            if self._races and launch.shared_bytes
            else 0
        )
        ranges[len(pointers)] = _Range(module.shared, module.shared + launch.shared_bytes, shared, 1, 1)
        threads = aligned_array((count * struct_bytes("thread"),), np.dtype(np.uint8))
        warps, order = np.zeros(-(-count // module.lanes), np.uint32), np.zeros(count, np.uint32)
        first, stride, random = self._orders(blocks)
        state = _Launch(
            *grid, *block, count, len(pointers),
            ctypes.addressof(arguments), ctypes.addressof(ranges), address(threads), address(warps), address(order),
            module.shared, launch.shared_bytes, random, first, stride,
        )  # fmt: skip
        state.now, state.shift, state.lanes = self._now, module.grain.bit_length() - 1, module.lanes
        return state, (arguments, ranges, threads, warps, order)

    def _orders(self, blocks: int) -> tuple[int, int, int]:
        """First block, stride between blocks, state of the generator for threads."""
        if self._random is None:
            return 0, 1, 0
        stride = next(n for n in itertools.count(int(self._random.integers(1, blocks + 1))) if gcd(n, blocks) == 1)
        return int(self._random.integers(blocks)), stride, int(self._random.integers(1, 1 << 62))

    def _shadow(self, pointer: int, grains: int) -> int:
        """The records of who touched which grain of a buffer."""
        wanted = grains * struct_bytes("shadow")
        if pointer not in self._shadows or self._shadows[pointer].nbytes < wanted:
            self._shadows[pointer] = np.zeros(wanted, np.uint8)
        return address(self._shadows[pointer])


def emulator(seed: int = 1, races: bool = True, name: str = "emulator") -> GpuDevice:
    """The emulator as a device; see `EmulatorPort`."""
    return GpuDevice(EmulatorPort(seed, races, name))


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return x, y, z


_KINDS = {
    OUTSIDE: "an access outside of a buffer",
    MISALIGNED: "a misaligned access",
    RACE: "a race between threads",
    DIVERGED: "a barrier that not all threads of the block reach",
    STUCK: "threads that wait for ever in a warp collective",
    READ_ONLY: "a write to an input",
    ABSENT_LANE: "a warp collective whose mask does not name the lane that calls it",
}


def _fault(module: EmulatedModule, launch: Launch, state: Any) -> KernelFault:
    thread, size = state.error_thread, state.error_size
    lines = [f"thread {thread} of block {state.error_block}: {module.sites[state.error_site]}"]
    where = ctypes.c_int32(state.error_where).value
    if state.error in (OUTSIDE, MISALIGNED, READ_ONLY, RACE):
        offset = ctypes.c_int64(state.error_address).value
        if where == SHARED or where == len(module.names):
            buffer, held = "shared memory", launch.shared_bytes
        elif 0 <= where < len(module.names):
            buffer, held = f"argument {where} ({module.names[where]})", -1
        else:
            buffer, held = "a private or unknown buffer", -1
        detail = f"alignment {size}" if state.error == MISALIGNED else f"{size} bytes"
        lines.append(f"{detail} at byte {offset} of {buffer}" + (f", which has {held}" if held >= 0 else ""))
    if state.error == RACE:
        lines.append(f"with thread {state.error_other}: {module.sites[state.error_other_site]}")
    if state.error == DIVERGED and state.error_other:
        lines.append(f"{state.error_other} threads have ended")
    return KernelFault(f"{_KINDS[state.error]} in kernel {launch.symbol}", found="; ".join(lines))
