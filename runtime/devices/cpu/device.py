"""Runs artifacts in this process: object code is linked by LLVM's JIT linker, with the OpenMP runtime that is here."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ....codegen.artifact import Artifact, BufferSpec, entry_name
from ....common.errors import EnvironmentFailure, InternalError, TargetError
from ....common.once import once
from ....targets.target import check_runs_here, parse_target
from ....tensor.dtype import DTYPES
from ..base import Array
from . import perf
from .cold import evict
from .fast_call import ArgumentSpec, Wanted, fast_call, fits
from .jit import LINKING, jit
from .memory import address, kept_memory, output_array, release_behind, release_mapped, unchanging
from .model_team import team_functions
from .repeat import repeat_cold, repeat_loop
from .team import parallel

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_TIMED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_WITH_OPENMP = (("sklearn", "scikit_learn.libs"), ("xgboost", "xgboost_cpu.libs"), ("xgboost", "xgboost.libs"))
_MAPPED = Path("/proc/self/maps")  # on Linux
_OF_TORCH = {"torch", "torch.libs"}  # folders of its wheels
_numbers = itertools.count()
WAITING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "100000"}  # up to some 3 ms of spinning, then sleep


@once
def openmp_runtime() -> ctypes.CDLL:
    """libgomp: one that this process has loaded, else that of a wheel (_WITH_OPENMP), else the system's. The packages are not
    imported.

    Two of them have a team each, and the threads of one wait for work on the cores that the other needs: kernels between
    operators of torch took up to three times as long, two threads on two cores of an EPYC 9004 (training steps of 3 to 6 ms).

    Raises EnvironmentFailure if there is none.
    """
    tried = _loaded_runtimes()
    for package, folder in _WITH_OPENMP:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            tried += sorted(map(str, (Path(spec.origin).parents[1] / folder).glob("libgomp*.so*")))
    tried.append("libgomp.so.1")
    with _waiting_policy():
        for name in tried:
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
    raise EnvironmentFailure(
        "no OpenMP runtime was found, which kernels for several threads need",
        expected="libgomp, as in the wheels of scikit-learn and xgboost or with gcc",
        found="tried " + ", ".join(tried),
        advice="install the system's (apt install libgomp1), or pip install scikit-learn, or compile with threads=1",
    )


def _loaded_runtimes() -> list[str]:
    """Paths of the libgomps in this process, that of torch first: kernels run between its operators, where it is there."""
    try:
        mapped = {line.split(maxsplit=5)[-1] for line in _MAPPED.read_text().splitlines() if "libgomp" in line}
    except OSError:
        return []
    return sorted(mapped, key=lambda path: (_OF_TORCH.isdisjoint(Path(path).parts), path))


@once
def _runtime_functions() -> Mapping[str, int]:
    """The addresses of what artifacts may ask of the OpenMP runtime, and of what stands before it."""
    runtime = openmp_runtime()

    def place(name: str) -> int:
        return ctypes.cast(getattr(runtime, name), ctypes.c_void_p).value or 0

    thread = {name: place(name) for name in ("omp_get_thread_num", "omp_get_num_threads")}
    return {**thread, **team_functions(parallel(place("GOMP_parallel")), *thread.values())}


@contextmanager
def _waiting_policy() -> Iterator[None]:
    """Says how a team waits for its next region, which the runtime reads once, when it is loaded: it spins shortly, then
    sleeps.

    By default a team spins for milliseconds, on cores that whatever else runs here needs; on a busy machine that made calls
    a hundred times slower. A person's own settings stand, and the environment is left as it was.
    """
    wanted = {} if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ else WAITING
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            del os.environ[name]


class CpuDevice:
    """The processors of this machine."""

    name = "cpu"
    own_memory = False
    clock = "host"

    def load(self, artifact: Artifact) -> CpuKernel:
        """Links the code. Errors: TargetError if this machine lacks what the code needs; EnvironmentFailure if there is no
        OpenMP runtime or the object does not link."""
        if artifact.format != "object":
            raise TargetError("this artifact is no CPU code", expected="format 'object'", found=repr(artifact.format))
        check_runs_here(parse_target(artifact.target))
        return CpuKernel(artifact)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An uninitialised array, as callers get it."""
        return output_array(shape, dtype)

    def upload(self, array: Array) -> Array:
        """The array itself."""
        return array


class Frame:
    """Holds what one call needs: the argument block and the workspace. Used by one call at a time."""

    __slots__ = ("arguments", "keep", "pointer", "workspace")

    def __init__(self, count: int, workspace_bytes: int, held: Mapping[int, Array]) -> None:
        self.arguments = (ctypes.c_void_p * max(1, count))()
        for slot, array in held.items():
            self.arguments[slot] = address(array)
        self.pointer = ctypes.addressof(self.arguments)
        self.keep = kept_memory(workspace_bytes) if workspace_bytes else None
        self.workspace = 0 if self.keep is None else address(self.keep)


class CpuKernel:
    """A linked artifact. Calls release Python's global lock and may overlap: each takes a frame of its own from a pool."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.kernels = tuple(link(kernel) for kernel in artifact.kernels)  # of a model
        self._library = link(artifact, self.kernels)
        self.entry = ENTRY(self._library[artifact.symbol])
        kept, passing = artifact.prepared_bytes, artifact.preparing_bytes
        self._prepared = kept_memory(kept, behind=passing) if kept else None
        self.prepared = 0 if self._prepared is None else address(self._prepared)
        self._held: dict[int, Array] = {}  # constants that calls read, by their places among the arguments
        self._ready = not artifact.constants
        self._inputs = len(artifact.inputs)
        self._outputs_at = self._inputs + len(artifact.constants)
        self._count = self._outputs_at + len(artifact.outputs)
        self._frames: list[Frame] = []
        inputs, outputs = _wanted(artifact.inputs), _wanted(artifact.outputs)
        self._argument_spec = ArgumentSpec(inputs, outputs) if fits(inputs, outputs) else None
        self.address = self._library[artifact.symbol]
        if self._argument_spec is not None:
            self._enter = fast_call(len(inputs), len(artifact.constants), len(outputs))

    @property
    def facts(self) -> dict[str, dict[str, int]]:
        """Returns nothing: a processor has no driver."""
        return {}

    def acquire(self) -> Frame:
        """A free frame. Give it back by `release`."""
        try:
            return self._frames.pop()
        except IndexError:
            return Frame(self._count, self.artifact.workspace_bytes, self._held)

    def release(self, frame: Frame) -> None:
        """Makes a frame free again."""
        self._frames.append(frame)

    def prepare(self, constants: Sequence[Array]) -> None:
        """See LoadedKernel."""
        if len(constants) != len(self.artifact.constants):
            raise InternalError(
                "a wrong number of constants", expected=str(len(self.artifact.constants)), found=str(len(constants))
            )
        if self._prepared is not None:
            frame = self.acquire()
            for slot, constant in enumerate(constants, self._inputs):
                frame.arguments[slot] = address(constant)
            ENTRY(self._library[f"{self.artifact.symbol}_prepare"])(frame.pointer, self.prepared, frame.workspace)
            release_behind(self._prepared, self.artifact.preparing_bytes)
        for number, constant in enumerate(constants):
            release_mapped(constant, sparse=number in self.artifact.held)  # calls bring back what they read of those
        self._hold([unchanging(constants[number]) for number in self.artifact.held])

    def kept(self) -> Sequence[Array]:
        """See LoadedKernel: what was prepared of the constants."""
        return [*([] if self._prepared is None else [self._prepared.copy()]), *self._held.values()]

    def restore(self, kept: Sequence[Array]) -> None:
        """See LoadedKernel."""
        if self._prepared is not None:
            self._prepared[:] = kept[0]
        self._hold(kept[len(kept) - len(self.artifact.held) :])

    def _hold(self, constants: Sequence[Array]) -> None:
        """Keeps the constants that calls read; from now on there may be calls."""
        self._held = {self._inputs + n: array for n, array in zip(self.artifact.held, constants, strict=True)}
        self._frames.clear()
        self._ready = True

    def run(self, arrays: Sequence[Array], stream: int = 0, entry: Any = None) -> None:
        """See LoadedKernel. `entry`: of other code with the same arguments and memory (observed.py)."""
        self.run_at([address(array) for array in arrays], entry=entry)

    def run_at(self, addresses: Sequence[int], stream: int = 0, entry: Any = None) -> None:
        """See LoadedKernel. `entry`: as `run` has it."""
        frame = self._filled(addresses)
        (entry or self.entry)(frame.pointer, self.prepared, frame.workspace)
        self.release(frame)

    def run_if_right(self, *objects: object) -> bool:
        """See LoadedKernel."""
        if self._argument_spec is None or not self._ready:
            return False
        frame = self.acquire()
        refused = self._enter(
            self._argument_spec.pointer, frame.pointer, self.prepared, frame.workspace, self.address, *objects
        )
        self._frames.append(frame)
        return not refused

    def run_repeat(self, arrays: Sequence[Array], count: int, cold: bool = False) -> float:
        """See LoadedKernel."""
        frame, constants, repeat = self._filled(map(address, arrays)), self._constants if cold else [], repeat_loop()
        call = self.address, frame.pointer, self.prepared, frame.workspace, count
        if constants:
            seconds = repeat_cold(*call, constants)
        else:
            started = time.perf_counter()
            repeat(*call)
            seconds = time.perf_counter() - started
        self.release(frame)
        return seconds

    def run_timed(self, arrays: Sequence[Array]) -> Sequence[float]:
        """See LoadedKernel."""
        frame, times = self._filled(map(address, arrays)), (ctypes.c_int64 * (len(self.artifact.launches) + 1))()
        _TIMED(self._library[f"{self.artifact.symbol}_timed"])(
            frame.pointer, self.prepared, frame.workspace, ctypes.addressof(times)
        )
        self.release(frame)
        return [nanoseconds / 1e9 for nanoseconds in times]

    def evict(self, arrays: Sequence[Array]) -> None:
        """See LoadedKernel."""
        evict([*arrays, *self._constants])

    @property
    def _constants(self) -> list[Array]:
        """Returns the arrays that calls read of constants."""
        kept = [*([] if self._prepared is None else [self._prepared]), *self._held.values()]
        return [array for array in kept if array.size]

    def _filled(self, addresses: Iterable[int]) -> Frame:
        if not self._ready:
            raise InternalError("the kernel was not given its constants", advice="call prepare first")
        frame = self.acquire()
        block, inputs, gap = frame.arguments, self._inputs, self._outputs_at - self._inputs
        for number, place in enumerate(addresses):
            block[number if number < inputs else number + gap] = place
        return frame


def _wanted(specs: Sequence[BufferSpec]) -> list[Wanted]:
    return [(DTYPES[spec.dtype].numpy, spec.shape) for spec in specs]


def link(artifact: Artifact, kernels: Sequence[Any] = (), entries: Mapping[str, int] | None = None) -> Any:
    """Links the object files; what comes back maps exported symbols to addresses and keeps the code alive.

    kernels: of a model what was linked of each of its kernels, which the caller keeps.
    entries: other addresses of their entries, by `entry_name`.
    """
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_current_process()
    for number, (library, kernel) in enumerate(zip(kernels, artifact.kernels, strict=True)):
        name = entry_name(artifact.symbol, number)
        builder.import_symbol(name, (entries or {}).get(name, library[kernel.symbol]))
        if kernel.prepared_bytes:
            builder.import_symbol(f"{name}_prepare", library[f"{kernel.symbol}_prepare"])
    objects = (artifact.code, *artifact.parts)
    for code in objects:
        builder.add_object_img(code)
    if artifact.runtime_symbols:
        runtime = _runtime_functions()
        for name in artifact.runtime_symbols:
            builder.import_symbol(name, runtime[name])
    names = [artifact.symbol]
    if artifact.prepared_bytes:
        names.append(f"{artifact.symbol}_prepare")
    if artifact.kernels:
        names.append(f"{artifact.symbol}_timed")
    told = perf.names_to_export(objects)
    for name in dict.fromkeys([*names, *told]):
        builder.export_symbol(name)
    with LINKING:
        try:
            library = builder.link(jit(), f"{artifact.symbol}.{next(_numbers)}")
        except RuntimeError as error:
            raise EnvironmentFailure("the compiled code could not be linked", found=str(error)) from error
    if told:
        perf.tell(objects, {name: library[name] for name in told})
    return library
