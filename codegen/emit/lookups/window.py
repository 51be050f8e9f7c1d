"""Elements of a short stretch of memory, each lane's at a place of its own that data say (schedules/plan/windows.py).

On an EPYC of Zen 3 a grid of cells of 12 numbers, of which a pixel reads 16, takes 12 ms so, and 32 ms lane by lane.
"""

from __future__ import annotations

from ....schedules.plan.windows import VECTORS, permutes
from ....tensor.dtype import boolean, i32, i64
from ..index import Index
from ..memory import BufferPointer, Memory
from ..stretch import picked
from ..types import Value, literal, memory_type, vector

# (lanes, element) -> LLVM's name of the instruction
_PERMUTES = {
    (8, "float"): "llvm.x86.avx2.permps",
    (8, "i32"): "llvm.x86.avx2.permd",
    (16, "float"): "llvm.x86.avx512.permvar.sf.512",
    (16, "i32"): "llvm.x86.avx512.permvar.si.512",
    (8, "double"): "llvm.x86.avx512.permvar.df.512",
    (8, "i64"): "llvm.x86.avx512.permvar.di.512",
}


def load_window(memory: Memory, place: BufferPointer, index: Index) -> Value | None:
    """The elements of all lanes, where a range of places is known that they lie in, two vectors long at most.

    All that lies in that range exists. None where there is no such range or no such instruction.
    """
    lanes, dtype = memory.indices.lanes, place.buffer.dtype
    span = memory.indices.span(index)
    if span is None or not permutes(memory.arithmetic.target, dtype, lanes):
        return None
    first, length = span[0], span[1] - span[0] + 1
    if not 2 <= length <= VECTORS * lanes:
        return None
    window = _StretchReads(memory, place)
    start = Index(index.constant + first, index.terms)
    places = memory.indices.value(Index(-first, (), index.lane, index.vector))
    if length <= lanes:
        return window.permuted(window.short(start, length), places)
    begin, end = (window.loaded(start.shifted(ahead), lanes) for ahead in (0, length - lanes))
    ahead = memory.arithmetic.spread(Value(literal(length - lanes, i64), i64), lanes)
    limit = memory.arithmetic.spread(Value(literal(lanes, i64), i64), lanes)
    late = memory.arithmetic.apply("sub", [places, ahead], i64)
    early = memory.arithmetic.apply("lt", [places, limit], boolean)
    return memory.arithmetic.select(early, window.permuted(begin, places), window.permuted(end, late))


class _StretchReads:
    """Loads from one buffer, and the instruction that permutes a vector of its elements."""

    def __init__(self, memory: Memory, place: BufferPointer) -> None:
        self.memory = memory
        self.place = place
        self.dtype = place.buffer.dtype
        self.lanes = memory.indices.lanes
        self.name = _PERMUTES[self.lanes, memory_type(self.dtype)]

    def loaded(self, start: Index, lanes: int) -> str:
        """Elements that lie side by side."""
        text, buffer, kind = self.memory.text, self.place.buffer.name, memory_type(self.dtype, lanes)
        known = text.recall(buffer, (start, kind))
        if known is None:
            address = self.memory.pointer(self.place, start)
            loaded = f"load {kind}, ptr {address}, align {self.dtype.bytes}"
            known = Value(text.read(loaded, buffer, address, movable=True), self.dtype, lanes)
            text.remember(buffer, (start, kind), known)
        return known.text

    def short(self, start: Index, length: int) -> str:
        """A vector that begins with `length` elements, behind which the last one stands again."""
        text, buffer = self.memory.text, self.place.buffer
        known = text.recall(buffer.name, (start, length, "stretch"))
        if known is None:

            def pointer(further: int) -> str:
                return self.memory.pointer(self.place, start.shifted(further))

            places = (min(lane, length - 1) for lane in range(self.lanes))
            found = picked(text, buffer, pointer, length, places, movable=True)
            known = Value(found, self.dtype, self.lanes)
            text.remember(buffer.name, (start, length, "stretch"), known)
        return known.text

    def permuted(self, elements: str, places: Value) -> Value:
        """The element that each lane says; the instruction reads as many of its low bits as count lanes."""
        kind, wide = memory_type(self.dtype, self.lanes), self.dtype.bits == i64.bits
        places = places if wide else self.memory.arithmetic.cast(places, i32)
        which = vector("i64" if wide else "i32", self.lanes)
        call = self.memory.arithmetic.module.intrinsic(self.name, kind, kind, which)
        text = f"{call}({kind} {elements}, {which} {places.text})"
        return Value(self.memory.text.compute(text, elements, places.text), self.dtype, self.lanes)
