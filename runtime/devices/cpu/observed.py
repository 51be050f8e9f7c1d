"""A model whose calls are told to somebody: its caller, linked once more with a few instructions around each kernel.

    shim <n>    before(n); kernel <n>(...); after(n)

The code of kernels and of their caller is that of an ordinary run, and an ordinary run has nothing of this. The number is that
of the kernel (`artifact.kernels`): calls come in order, so who counts knows which call it is. All are told in the thread that
runs the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ....codegen.artifact import entry_name
from ..base import Array
from .device import ENTRY, CpuKernel, link
from .jit import linked

_numbers = itertools.count()


class ObservedKernel:
    """A loaded kernel with addresses of `void before(int64_t)` and of `void after(int64_t)`, which the caller keeps alive."""

    def __init__(self, kernel: CpuKernel, before: int, after: int) -> None:
        artifact, kernels = kernel.artifact, kernel.kernels
        self._kernel = kernel
        symbol = f"observed{next(_numbers)}"
        count = max(1, len(kernels))
        entries = [library[one.symbol] for library, one in zip(kernels, artifact.kernels, strict=True)]
        entries = entries or [kernel.address]
        names = [f"{symbol}.{number}" for number in range(count)]
        imports = {f"{name}.inner": int(entry) for name, entry in zip(names, entries, strict=True)}
        self._shims = linked(
            "\n".join([_HEAD, *map(_shim, names, range(count))]),
            names[0],
            {**imports, "before": before, "after": after},
            names[1:],
        )
        if not kernels:
            self._entry = ENTRY(self._shims[names[0]])
            return
        given = {entry_name(artifact.symbol, number): int(self._shims[name]) for number, name in enumerate(names)}
        self._library = link(artifact, kernels, given)
        self._entry = ENTRY(self._library[artifact.symbol])

    def run(self, arrays: Sequence[Array]) -> None:
        """Runs once, as `CpuKernel.run` does."""
        self._kernel.run(arrays, entry=self._entry)


_HEAD = "declare void @before(i64)\ndeclare void @after(i64)"
_ARGUMENTS = "ptr %arguments, ptr %prepared, ptr %workspace"


def _shim(name: str, number: int) -> str:
    return f"""declare void @{name}.inner(ptr, ptr, ptr)
define void @{name}({_ARGUMENTS}) {{
  call void @before(i64 {number})
  call void @{name}.inner({_ARGUMENTS})
  call void @after(i64 {number})
  ret void
}}"""
