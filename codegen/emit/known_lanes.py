"""What is known, when code is written, of conditions that differ from lane to lane, and stores of lanes that are known.

That is in which lanes a condition holds; and of one that is known but for what all lanes have in common, both parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...tensor.dtype import DType
from ..math.body import shuffle_mask
from .text import FunctionText
from .types import Value, memory_type

Both = Callable[[Value | None, Value | None], Value | None]


class KnownLanes:
    """Conditions of one function, by their names. `masks`: in which lanes each holds. `parts`: of a conjunction of a scalar and
    of lanes, these two."""

    def __init__(self) -> None:
        self.masks: dict[str, tuple[bool, ...]] = {}
        self.parts: dict[str, tuple[Value, Value]] = {}

    def negated(self, found: Value, arg: Value) -> None:
        """Notes what is known of the negation of a condition."""
        if arg.text in self.masks:
            self.masks[found.text] = tuple(not holds for holds in self.masks[arg.text])

    def conjoined(self, found: Value, args: Sequence[Value], both: Both) -> None:
        """Notes what is known of a conjunction. `both`: writes one."""
        known = [self.masks.get(arg.text) for arg in args]
        left, right = known
        if left is not None and right is not None:
            self.masks[found.text] = tuple(one and other for one, other in zip(left, right, strict=True))
            return
        parts = [self.parts.get(arg.text, (None, arg) if arg.lanes else (arg, None)) for arg in args]
        if any(one is not None for one, _ in parts):
            scalar, lanes = (both(one, other) for one, other in zip(*parts, strict=True))
            assert scalar is not None and lanes is not None
            self.parts[found.text] = scalar, lanes


def store_first(text: FunctionText, dtype: DType, address: str, bits: str, count: int, lanes: int) -> None:
    """Stores the first lanes of a vector in pieces of four, two and one, or whatever powers of two there are."""
    kind, first = memory_type(dtype, lanes), 0
    while first < count:
        size = 1 << ((count - first).bit_length() - 1)
        picked = shuffle_mask(range(first, first + size))
        part = text.pure(f"shufflevector {kind} {bits}, {kind} poison, {picked}", bits)
        where = (
            text.pure(f"getelementptr {memory_type(dtype)}, ptr {address}, i64 {first}", address) if first else address
        )
        text.line(f"store {memory_type(dtype, size)} {part}, ptr {where}, align {dtype.bytes}")
        first += size
