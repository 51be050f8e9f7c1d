"""How kernels of a backend are written in LLVM IR, as data: what a block, a thread, a barrier and a shuffle are called there.

Instructions are LLVM IR text with names in braces, which whoever writes a kernel puts values in for. What an intrinsic *means*
is data too: the emulator plays meanings, so that it knows no backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

# Meanings of intrinsics, as the emulator plays them. Numbers of a thread: x, y or z follows.
THREAD, BLOCK, THREADS, BLOCKS = "thread.", "block.", "threads.", "blocks."
LANE, WARP_NUMBER, WARP_LANES = "lane", "warp", "lanes"
BARRIER, WARP_BARRIER = "barrier", "warp barrier"
# Shuffles have the operands of shfl.sync in PTX: mask of lanes, value, lane or distance, limits. A permutation has 4 times the
# number of the lane, and the value.
SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, SHUFFLE_INDEX = "shuffle up", "shuffle down", "shuffle xor", "shuffle index"
PERMUTE = "permute"
# The number of bytes follows. Operands: to, from; with PARTLY behind the number also how many bytes are real.
COPY = "copy "
PARTLY = " partly"
COMMIT, WAIT, WAIT_ALL = "commit", "wait", "wait for all"
FUNCTION = "function "  # of one float, its name follows


@dataclass(frozen=True, slots=True)
class IntrinsicCall:
    """A call of an intrinsic. Arguments are types and values, such as "i32 {mask}"."""

    name: str
    result: str = "void"
    arguments: tuple[str, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its arguments."""
        return tuple(argument.rpartition(" ")[0] for argument in self.arguments)


@dataclass(frozen=True, slots=True)
class LaneExchange:
    """Says how a thread gets the value of the lane whose number differs by the xor of {mask}.

    before: instructions without effects, whose results the call finds as {0}, {1}, ...; {thread} is the number of the thread.
    calls: what moves 32 bits ({value}), by LLVM type: "i32", and "float" where it need not become bits first.
    """

    calls: Mapping[str, IntrinsicCall]
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies to shared memory that nobody waits for yet. Sizes are bytes of one copy.

    by_size: (to, from); partly_by_size: (to, from, bytes that are real; the rest are zeros).
    """

    by_size: Mapping[int, str]
    partly_by_size: Mapping[int, str]
    commit: IntrinsicCall
    wait: IntrinsicCall  # {groups}


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Memory of one kind. `space`: its address space in LLVM IR. bytes: what one buffer may have there, where the backend has
    one number for it; 0 where the level of a target says it, or nobody."""

    space: int
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Emission:
    """Says how the kernels of a backend are written.

    intrinsics: what the names of its own intrinsics begin with.
    format: of the code in an artifact. text: the name of its text, which LLVM writes. more: of texts that tools make of that.
    convention, attributes: of a kernel of {threads} threads a block.
    scopes: "global", "shared", "private" and "table" (constants of the module).
    explicit_spaces: whether pointers say in which address space they are; else they are generic, and LLVM finds it out.
    layout: LLVM's data layout, where the text of a module needs it to mean what it says.
    meanings: of each intrinsic that kernels may have, without "llvm.": those that we write, and others of programs by hand.
    unknown: what stands in the text of an empty module for an architecture that this LLVM does not know.
    """

    intrinsics: str
    format: str
    text: str
    convention: str
    attributes: str
    scopes: Mapping[str, MemoryScope]
    block_index: str
    thread_index: str
    barrier: tuple[IntrinsicCall | str, ...]
    shuffle: LaneExchange
    meanings: Mapping[str, str]
    copies: Copies | None = None
    explicit_spaces: bool = False
    layout: str = ""
    more: tuple[str, ...] = ()
    unknown: str = ""

    def pointer(self, scope: str) -> str:
        """The type of pointers into a scope."""
        return f"ptr {self.space(scope)}".rstrip() if self.explicit_spaces else "ptr"

    def space(self, scope: str) -> str:
        """The address space of what is made in a scope, with a blank behind it; nothing for the usual one."""
        number = self.scopes[scope].space
        return f"addrspace({number}) " if number else ""


def by_axis(name: str, meaning: str, axes: Iterable[str] = "xyz") -> dict[str, str]:
    """An intrinsic for each axis, which is the end of its name."""
    return {f"{name}{axis}": f"{meaning}{axis}" for axis in axes}


def table(*parts: Mapping[str, str]) -> Mapping[str, str]:
    """A table of meanings made of several."""
    return MappingProxyType({name: meaning for part in parts for name, meaning in part.items()})
