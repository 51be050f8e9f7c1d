"""A compiled candidate as plain data: it is sent to other processes and machines, and kept on disk (stored.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from .rows import PitchedRows


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """One argument: the person's name for it, the dtype's name, the shape. `rows`: where its elements do not all lie side by
    side, as some kernels of a model have it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    rows: PitchedRows | None = None

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Launch:
    """One root nest: a parallel region on a CPU, a kernel launch on a GPU (then grid and block are not empty)."""

    symbol: str
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Artifact:
    """Machine code and all that is needed to call it. Names runtime symbols, never addresses.

    Calling convention of a CPU object (`code` is a relocatable object file), all pointers 64-byte aligned by the caller
    where it owns the memory (workspace, prepared); arguments may have any alignment their dtype has:

        void <symbol>(void **arguments, void *prepared, void *workspace)
        void <symbol>_prepare(void **arguments, void *prepared, void *workspace)    only if prepared_bytes > 0

    `_prepare` writes to `preparing_bytes` behind the prepared ones as well, which no call reads.
    `arguments` holds inputs (program order), then constants (program order; null but for _prepare, and for those whose numbers
    are in `held`, which calls read where they are), then outputs.

    Of a model `code` calls other artifacts, `kernels`, by names that `entry_name` gives: each of them is linked by itself, so
    that their symbols need not differ. `launches` has one for each call, and `times` gets the nanoseconds of each, then those
    of what is copied at the end:

        void <symbol>_timed(void **arguments, void *prepared, void *workspace, int64_t *times)

    Of a GPU (`code` is PTX, or, for the emulator, an object): `prepare_launches` once, then `launches` in order at each call.
    Every kernel takes the same parameters, pointers that are multiples of 16: inputs, constants (null but for
    prepare_launches), outputs, prepared, workspace.
    """

    name: str
    target: str
    threads: int
    format: str  # "object", "ptx" or "emulated"
    code: bytes
    symbol: str
    inputs: tuple[BufferSpec, ...]
    constants: tuple[BufferSpec, ...]
    outputs: tuple[BufferSpec, ...]
    prepared_bytes: int
    workspace_bytes: int
    launches: tuple[Launch, ...]
    prepare_launches: tuple[Launch, ...] = ()
    preparing_bytes: int = 0
    held: tuple[int, ...] = ()  # numbers of constants that must stay where they are
    runtime_symbols: tuple[str, ...] = ()
    builder: str = ""  # codegen and LLVM version
    parts: tuple[bytes, ...] = ()  # further objects, with functions that `code` calls
    modules: tuple[bytes, ...] = ()  # of a CPU: what `code` and each of `parts` was made of, as LLVM's bitcode
    kernels: tuple[Artifact, ...] = ()  # of a model
    texts: dict[str, str] = field(default_factory=dict)  # "loops", "llvm", "asm": only when asked for
    seconds: dict[str, float] = field(default_factory=dict)  # build time by part: lower, emit, parse, optimize, code


def entry_name(symbol: str, number: int) -> str:
    """Says how the code of a model names the entry of its kernel of this number; `_prepare` behind it: that function's."""
    return f"{symbol}.kernel{number}"
