"""Loads and stores on GPUs: the alignment that lets a thread move 128 bits at once, and single accesses where lanes differ.

Where a condition does not hold, a load reads the first element of its buffer, which is there, and a store is jumped over: all
addresses stay within one buffer, so that LLVM can tell which memory they are in.
"""

from __future__ import annotations

from math import gcd

from ...tensor.dtype import i64
from ..ir.loop_ir import Scope
from .index import Index
from .memory import BufferPointer, Memory
from .strided import Near
from .types import Value, memory_type

WIDEST = 16  # bytes of one access


class GpuMemory(Memory):
    """Accesses of one kernel. `written`: the buffers that it stores to, which other threads may be at."""

    written: frozenset[str] = frozenset()
    updated: str = ""  # the shared buffer that an update is at, and so each thread at an element of its own

    def pointer(self, place: BufferPointer, index: Index) -> str:
        """Works as everywhere; in a swizzled buffer the address of a chunk depends on the line it is in."""
        bits = place.buffer.swizzle
        if not bits:
            return super().pointer(place, index)
        text, size, kind = self.text, place.buffer.dtype.bytes.bit_length() - 1, self.indices.kind
        # what is a multiple of all lines that differ changes neither the line nor the chunk, and stays an offset
        period = 1 << (7 - size + bits)
        low, moving = index.constant % period, tuple(term for term in index.terms if term[1] % period)
        # so does a place inside of a chunk: neighbours are a constant apart, and LLVM joins what it sees together
        chunk_points = 1 << (4 - size)
        low -= low % chunk_points if all(times % chunk_points == 0 for _, times in moving) else 0
        high = index.constant - low
        inside = Index(low, moving)
        outside = Index(high, tuple(term for term in index.terms if not term[1] % period))
        element = self.indices.scalar(inside)
        line = text.pure(f"lshr {kind} {element}, {7 - size}", element)
        number = text.pure(f"and {kind} {line}, {(1 << bits) - 1}", line)
        chunk = text.pure(f"shl {kind} {number}, {4 - size}", number)
        where = text.pure(f"xor {kind} {element}, {chunk}", element, chunk)
        return super().pointer(place, Index(outside.constant, (*outside.terms, (where, 1))))

    def alignment(self, place: BufferPointer, index: Index, lanes: int) -> int:
        """Bytes, at most 16, that the address of lane 0 is surely a multiple of. All buffers begin at multiples of 16."""
        size = place.buffer.dtype.bytes
        if place.buffer.scope is Scope.TABLE:
            return size
        steps = gcd(WIDEST, size * index.constant, *(size * times for _, times in index.terms))
        return max(size, min(steps, WIDEST))

    def _load(self, place: BufferPointer, index: Index, condition: Value | None, near: Near) -> Value:
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

    def _together(self, place: BufferPointer, index: Index, lanes: int) -> bool:
        """Says whether the lanes lie side by side."""
        if index.lane != 1 or index.vector:
            return False
        return not place.buffer.swizzle or (
            lanes * place.buffer.dtype.bytes <= self.alignment(place, Index(index.constant, index.terms), lanes)
        )

    def _wide(self, place: BufferPointer, index: Index, lanes: int) -> str:
        base = Index(index.constant, index.terms)
        address = self.pointer(place, base)
        kind, align = memory_type(place.buffer.dtype, lanes), self.alignment(place, base, lanes)
        text = f"load {kind}, {place.pointer} {address}, align {align}"
        return self.text.read(text, place.buffer.name, address, movable=True)

    def _one(self, place: BufferPointer, index: Index, condition: Value | None) -> Value:
        return self._from_memory(self._one_raw(place, index, condition), place, 0)

    def _one_raw(self, place: BufferPointer, index: Index, condition: Value | None) -> str:
        """An element as it is in memory."""
        address, align = self.pointer(place, index), self.alignment(place, index, 0)
        if condition is not None and condition.text != "true":
            scalar, harmless = self._any(condition), self._harmless(place, index)
            shared = place.buffer.scope is Scope.SHARED and place.buffer.name != self.updated
            if place.buffer.name in self.written and not shared:
                return self._one_in_branch(place, address, align, scalar)
            choice = f"select i1 {scalar.text}, {place.pointer} {address}, {place.pointer} {harmless}"
            address = self.text.pure(choice, scalar.text, address, harmless)
        else:
            condition = None
        text = f"load {memory_type(place.buffer.dtype)}, {place.pointer} {address}, align {align}"
        return self.text.read(text, place.buffer.name, address, movable=condition is None)

    def _one_in_branch(self, place: BufferPointer, address: str, align: int, condition: Value) -> str:
        """An element of a buffer whose first one may just be written; 0 where the condition does not hold."""
        text, kind = self.text, memory_type(place.buffer.dtype)
        before = text.block
        yes, after = text.name("b"), text.name("b")
        text.open(f"br i1 {condition.text}, label %{yes}, label %{after}", yes, writes=frozenset(), branch=True)
        loaded = text.effect(f"load {kind}, {place.pointer} {address}, align {align}")
        text.close(f"br label %{after}")
        text.start_block(after)
        return text.effect(f"phi {kind} [ {loaded}, %{yes} ], [ zeroinitializer, %{before} ]")

    def _harmless(self, place: BufferPointer, index: Index) -> str:
        """Says where to read when there is nothing to read: the first element, of the slot that nobody fills meanwhile."""
        slots = place.buffer.slots
        if slots == 1:
            return place.base
        apart = place.buffer.elements // slots
        moving = tuple(term for term in index.terms if term[1] % apart == 0)
        still = 0 if moving else min(max(index.constant // apart, 0), slots - 1) * apart
        return self.pointer(place, Index(still, moving))  # slots may share a line, within which chunks are exchanged

    def _lane_index(self, index: Index, lane: int) -> Index:
        """The index of one lane as a scalar."""
        if not index.vector:
            return Index(index.constant + index.lane * lane, index.terms)
        whole = Value(index.vector, i64, self.indices.lanes)
        own = self.indices.from_value(self.arithmetic.lane(whole, lane))
        return self.indices.total(((Index(index.constant + index.lane * lane, index.terms), 1), (own, 1)))

    def store(
        self, place: BufferPointer, index: Index, value: Value, condition: Value | None, streaming: bool = False
    ) -> None:
        """Stores as everywhere; what is not stored in every lane is stored one by one."""
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

    def _store(self, place: BufferPointer, index: Index, bits: str, lanes: int, condition: Value | None) -> None:
        address, align = self.pointer(place, index), self.alignment(place, index, lanes)
        line = f"store {memory_type(place.buffer.dtype, lanes)} {bits}, {place.pointer} {address}, align {align}"
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

    def prefetch(self, place: BufferPointer, index: Index, locality: int) -> None:
        """Warps hide latency; there is no instruction that LLVM selects."""

    # Asynchronous copies

    def copy_later(
        self, place: BufferPointer, index: Index, source: BufferPointer, start: Index, condition: Value | None
    ) -> bool:
        """Copies elements of an argument to shared memory without waiting; zeros where the condition does not hold.

        False where there is no instruction for it, and nothing is done: for less than 4 bytes.
        """
        copies = self.arithmetic.target.emission.copies
        size = place.buffer.dtype.bytes
        lanes = 0 if index.is_scalar else self.indices.lanes
        if copies is None or place.buffer.dtype != source.buffer.dtype:
            return False
        if condition is not None and condition.text == "true":
            condition = None
        pieces = self._pieces(place, index, source, start, 1 if condition is not None and condition.lanes else lanes)
        if pieces * size not in copies.by_size:
            return False
        for lane in range(0, max(1, lanes), pieces):
            real = None if condition is None else self.arithmetic.lane(condition, lane)
            to, origin = self._lane_index(index, lane), self._lane_index(start, lane)
            self._copy(place, to, source, origin, pieces * size, real)
        self.text.forget(place.buffer.name)
        return True

    def _pieces(self, place: BufferPointer, index: Index, source: BufferPointer, start: Index, lanes: int) -> int:
        """Says how many lanes one instruction may copy."""
        size = place.buffer.dtype.bytes
        side_by_side = index.lane == start.lane == 1 and not index.vector and not start.vector
        if lanes <= 1 or not side_by_side:
            return 1
        whole = min(
            self.alignment(place, Index(index.constant, index.terms), lanes),
            self.alignment(source, Index(start.constant, start.terms), lanes),
            lanes * size,
        )
        return max(1, whole // size)

    def _copy(
        self, place: BufferPointer, to: Index, source: BufferPointer, start: Index, size: int, real: Value | None
    ) -> None:
        text = self.text
        address, origin = self.pointer(place, to), self.pointer(source, start)
        if real is not None:
            choice = f"select {real.typed}, {source.pointer} {origin}, {source.pointer} {source.base}"
            origin = text.pure(choice, real.text, origin, source.base)
        emission = self.arithmetic.target.emission
        assert emission.copies is not None
        kinds = [f"ptr addrspace({emission.scopes[scope].space})" for scope in ("shared", "global")]
        shared, far = text.cast(place.pointer, address, kinds[0]), text.cast(source.pointer, origin, kinds[1])
        name = emission.copies.by_size[size]
        arguments = f"{kinds[0]} {shared}, {kinds[1]} {far}"
        if real is not None:
            bytes_read = text.pure(f"select {real.typed}, i32 {size}, i32 0", real.text)
            kinds, arguments = [*kinds, "i32"], f"{arguments}, i32 {bytes_read}"
            name = emission.copies.partly_by_size[size]
        text.line(f"{self.arithmetic.module.intrinsic(name, 'void', *kinds)}({arguments})")
