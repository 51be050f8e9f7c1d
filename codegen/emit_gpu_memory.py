"""Loads and stores on GPUs: the alignment that lets a thread move 128 bits at once, and single accesses where lanes differ.

Where a condition does not hold, a load reads the first element of its buffer, which is there, and a store is jumped over: all
addresses stay within one buffer, so that LLVM can tell which memory they are in.
"""

from __future__ import annotations

from math import gcd

from ..tensor.dtype import i64
from .emit_index import Index
from .emit_memory import Memory, Place
from .emit_types import Value, memory_type
from .loop_ir import Scope

WIDEST = 16  # bytes of one access


class GpuMemory(Memory):
    """Accesses of one kernel."""

    def pointer(self, place: Place, index: Index) -> str:
        """As everywhere; in a swizzled buffer the address of a chunk depends on the line it is in."""
        if not place.buffer.swizzle:
            return super().pointer(place, index)
        text, size = self.text, place.buffer.dtype.bytes.bit_length() - 1
        element = self.indices.scalar(index)
        kind = self.indices.kind
        line = text.pure(f"lshr {kind} {element}, {7 - size}", element)
        bits = text.pure(f"and {kind} {line}, {(1 << place.buffer.swizzle) - 1}", line)
        chunk = text.pure(f"shl {kind} {bits}, {4 - size}", bits)
        where = text.pure(f"xor {kind} {element}, {chunk}", element, chunk)
        what = memory_type(place.buffer.dtype)
        return text.pure(f"getelementptr {what}, ptr {place.base}, {kind} {where}", place.base, where)

    def alignment(self, place: Place, index: Index, lanes: int) -> int:
        """Bytes, at most 16, that the address of lane 0 is surely a multiple of. All buffers begin at multiples of 16."""
        size = place.buffer.dtype.bytes
        if place.buffer.scope is Scope.TABLE:
            return size
        steps = gcd(WIDEST, size * index.constant, *(size * times for _, times in index.terms))
        return max(size, min(steps, WIDEST))

    def _load(self, place: Place, index: Index, condition: Value | None) -> Value:
        lanes = 0 if index.is_scalar else self.indices.lanes
        if not lanes:
            return self._one(place, index, condition)
        if condition is None and self._together(place, index, lanes):
            return self._from_memory(self._wide(place, index, lanes), place, lanes)
        kind = memory_type(place.buffer.dtype, lanes)
        result = "poison"
        for lane in range(lanes):
            real = None if condition is None else self.arithmetic.lane(condition, lane)
            element = self._one_raw(place, self._lane_index(index, lane), real)
            insert = f"insertelement {kind} {result}, {memory_type(place.buffer.dtype)} {element}, i64 {lane}"
            result = self.text.compute(insert, result, element)
        return self._from_memory(result, place, lanes)

    def _together(self, place: Place, index: Index, lanes: int) -> bool:
        """Whether the lanes lie side by side."""
        if index.lane != 1 or index.vector:
            return False
        return not place.buffer.swizzle or (
            lanes * place.buffer.dtype.bytes <= self.alignment(place, Index(index.constant, index.terms), lanes)
        )

    def _wide(self, place: Place, index: Index, lanes: int) -> str:
        base = Index(index.constant, index.terms)
        address = self.pointer(place, base)
        text = (
            f"load {memory_type(place.buffer.dtype, lanes)}, ptr {address}, align {self.alignment(place, base, lanes)}"
        )
        return self.text.read(text, place.buffer.name, address, movable=True)

    def _one(self, place: Place, index: Index, condition: Value | None) -> Value:
        return self._from_memory(self._one_raw(place, index, condition), place, 0)

    def _one_raw(self, place: Place, index: Index, condition: Value | None) -> str:
        """An element as it is in memory."""
        address, align = self.pointer(place, index), self.alignment(place, index, 0)
        if condition is not None and condition.text != "true":
            scalar = self._any(condition)
            address = self.text.pure(
                f"select i1 {scalar.text}, ptr {address}, ptr {place.base}", scalar.text, address, place.base
            )
        else:
            condition = None
        text = f"load {memory_type(place.buffer.dtype)}, ptr {address}, align {align}"
        return self.text.read(text, place.buffer.name, address, movable=condition is None)

    def _lane_index(self, index: Index, lane: int) -> Index:
        """The index of one lane as a scalar."""
        if not index.vector:
            return Index(index.constant + index.lane * lane, index.terms)
        whole = Value(index.vector, i64, self.indices.lanes)
        own = self.indices.from_value(self.arithmetic.lane(whole, lane))
        return self.indices.total(((Index(index.constant + index.lane * lane, index.terms), 1), (own, 1)))

    def store(self, place: Place, index: Index, value: Value, condition: Value | None, streaming: bool = False) -> None:
        """As everywhere; what is not stored in every lane is stored one by one."""
        lanes = 0 if index.is_scalar else self.indices.lanes
        if value.lanes != lanes:
            value = self.arithmetic.spread(value, lanes)
        if condition is not None and condition.is_literal and condition.text == "true":
            condition = None
        bits = self._to_memory(value)
        if not lanes or (condition is None and self._together(place, index, lanes)):
            self._store(place, Index(index.constant, index.terms), bits, lanes, condition)
        else:
            kind = memory_type(place.buffer.dtype, lanes)
            for lane in range(lanes):
                real = None if condition is None else self.arithmetic.lane(condition, lane)
                part = self.text.compute(f"extractelement {kind} {bits}, i64 {lane}", bits)
                self._store(place, self._lane_index(index, lane), part, 0, real)
        self.text.forget(place.buffer.name)
        if condition is None:
            self.text.remember(place.buffer.name, (index, lanes), value)

    def _store(self, place: Place, index: Index, bits: str, lanes: int, condition: Value | None) -> None:
        address, align = self.pointer(place, index), self.alignment(place, index, lanes)
        line = f"store {memory_type(place.buffer.dtype, lanes)} {bits}, ptr {address}, align {align}"
        if condition is None:
            self.text.line(line)
            return
        text = self.text
        yes, after = text.name("b"), text.name("b")
        text.open(
            f"br i1 {condition.text}, label %{yes}, label %{after}",
            yes,
            writes=frozenset((place.buffer.name,)),
            branch=True,
        )
        text.line(line)
        text.close(f"br label %{after}")
        text.start_block(after)

    def prefetch(self, place: Place, index: Index, locality: int) -> None:
        """Warps hide latency; there is no instruction that LLVM selects."""
