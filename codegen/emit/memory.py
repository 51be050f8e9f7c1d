"""Loads and stores of buffers.

A read or write never touches an element that is not meant: lanes that do not count are masked, and a scalar access under a
condition goes to a harmless address where the condition does not hold, so straight-line code stays straight.
What has been loaded is remembered until the buffer is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ...schedules.access import STRIDED_AT_MOST
from ...tensor.dtype import DType, bf16, boolean
from ..ir.loop_ir import Buffer
from ..math.body import shuffle_mask
from .index import Index, IndexArithmetic
from .known_lanes import store_first
from .stretch import mask_from, picked, picked_where
from .strided import ALONE, Near, parts_of
from .text import FunctionText
from .types import FALSE, TRUE, Value, memory_literal, memory_type, suffix, value_type, vector
from .values import Arithmetic

SAFE = "@harmless"  # what a read finds where its condition does not hold: zeros
SAFE_BYTES = 4096
LEAST_MASK, MOST_MASK = 8, 64  # lanes of a mask that lies in a register
NONTEMPORAL = "!nontemporal !0"  # of a store that goes past the caches


@dataclass(frozen=True, slots=True)
class BufferPointer:
    """A buffer and the pointer to its first element. `pointer`: the type of pointers into it."""

    buffer: Buffer
    base: str
    pointer: str = "ptr"


class Memory:
    """Accesses of one function."""

    def __init__(self, text: FunctionText, arithmetic: Arithmetic, indices: IndexArithmetic) -> None:
        self.text = text
        self.arithmetic = arithmetic
        self.indices = indices
        self._zeros: dict[str, str] = {}  # what was loaded -> the condition without which it, or a lane of it, is zero

    def is_zero_without(self, loaded: Value, condition: Value) -> bool:
        """Says whether this was loaded where a condition holds, and is zero where, or in lanes in which, it does not."""
        return self._zeros.get(loaded.text) == condition.text

    def pointer(self, place: BufferPointer, index: Index) -> str:
        """The address of lane 0 (without the vector part): one step for each term, outermost loop first, constant last."""
        kind, whole = memory_type(place.buffer.dtype), self.indices.kind
        address = place.base
        for symbol, times in index.terms:
            moving = (
                self.text.induction_pointer(symbol, address, times * place.buffer.dtype.bytes) if times > 0 else None
            )
            if moving is not None:
                address = moving
            elif times > 0:
                step = f"[{times} x {kind}]" if times > 1 else kind
                address = self.text.pure(
                    f"getelementptr {step}, {place.pointer} {address}, {whole} {symbol}", address, symbol
                )
            else:
                scaled = self.text.pure(f"mul {whole} {symbol}, {times}", symbol)
                address = self.text.pure(
                    f"getelementptr {kind}, {place.pointer} {address}, {whole} {scaled}", address, scaled
                )
        if index.constant:
            address = self.text.pure(f"getelementptr {kind}, {place.pointer} {address}, i64 {index.constant}", address)
        return address

    def _pointers(self, place: BufferPointer, index: Index) -> str:
        """The addresses of all lanes."""
        base = self.pointer(place, Index(index.constant, index.terms))
        lanes = self.indices.value(Index(0, (), index.lane, index.vector))
        kind = memory_type(place.buffer.dtype)
        return self.text.pure(f"getelementptr {kind}, ptr {base}, {lanes.typed}", base, lanes.text)

    # Loads

    def load(
        self, place: BufferPointer, index: Index, guard: Value | None, mask: Value | None, near: Near = ALONE
    ) -> Value:
        """The element, or the elements of all lanes. Where `guard` or, in a vector, `mask` does not hold nothing is read.

        `guard` stands for a select, `mask` for the real lanes, of which there always is at least one. `near`: how many elements
        before and behind each that is read exist as well.
        """
        condition = guard if index.is_scalar else self.arithmetic.both(guard, mask)
        if condition is not None and condition.text == "true":
            condition = None
        name = place.buffer.name
        key = (index, 0 if index.is_scalar else self.indices.lanes)
        known = self.text.recall(name, key) or (
            self.text.recall(name, (key, condition.text)) if condition is not None else None
        )
        if known is None:
            known = self._load(place, index, condition, near)
            self.text.remember(name, key if condition is None else (key, condition.text), known)
        return known

    def _load(self, place: BufferPointer, index: Index, condition: Value | None, near: Near) -> Value:
        lanes = 0 if index.is_scalar else self.indices.lanes
        dtype = place.buffer.dtype
        kind = memory_type(dtype, lanes)
        contiguous = index.lane == 1 and not index.vector
        strided = 1 < index.lane <= min(STRIDED_AT_MOST, lanes) and not index.vector
        if strided:
            exist = near if condition is None else ALONE
            return self._from_memory(self._strided(place, index, condition, kind, exist), place, lanes)
        if lanes and not contiguous:
            beside = self._near(place, index, condition)
            if beside:
                return self._from_memory(beside, place, lanes)
            return self._from_memory(self._gather(place, index, condition, kind), place, lanes)
        address = self.pointer(place, index)
        if condition is not None and condition.lanes and lanes:
            result = self._masked_load(place, address, condition, kind)
            return self._from_memory(result, place, lanes)
        return self._from_memory(self._whole(place, address, condition, kind), place, lanes)

    def _whole(self, place: BufferPointer, address: str, condition: Value | None, kind: str) -> str:
        """Loads all that lies at an address, or zeros where a condition on all of it does not hold."""
        if condition is not None:
            address = self.chosen(address, self._any(condition))
        text = f"load {kind}, ptr {address}, align {place.buffer.dtype.bytes}"
        loaded = self.text.read(text, place.buffer.name, address, movable=condition is None)
        if condition is not None and not condition.lanes:
            self._zeros[loaded] = condition.text
        return loaded

    def _masked_load(self, place: BufferPointer, address: str, condition: Value, kind: str) -> str:
        """Loads the lanes for which a condition holds."""
        dtype, whole = place.buffer.dtype, condition
        address, condition = self.by_lanes(address, condition)
        name = f"llvm.masked.load.{_memory_suffix(place.buffer, condition.lanes)}.p0"
        call = self.arithmetic.module.intrinsic(name, kind, "ptr", condition.type, kind)
        arguments = f"ptr align {dtype.bytes} {address}, {condition.typed}, {kind} zeroinitializer"
        text = f"{call}({arguments})"
        loaded = self.text.read(text, place.buffer.name, address, condition.text, movable=True)
        self._zeros[loaded] = whole.text
        return loaded

    def by_lanes(self, address: str, condition: Value) -> tuple[str, Value]:
        """Returns an address and a condition on lanes: what all lanes have in common chooses the address, so that nothing is
        asked of memory that may not be there. To read no lane of an absent page takes a processor hundreds of cycles."""
        parts = None if self.arithmetic.target.is_gpu else self.arithmetic.known.parts.get(condition.text)
        return (address, condition) if parts is None else (self.chosen(address, parts[0]), parts[1])

    def chosen(self, address: str, condition: Value) -> str:
        """The address, or that of zeros where a scalar condition does not hold."""
        return self.text.pure(f"select i1 {condition.text}, ptr {address}, ptr {SAFE}", condition.text, address)

    def _strided(self, place: BufferPointer, index: Index, condition: Value | None, kind: str, near: Near) -> str:
        """Every second (third, fourth) element: whole vectors, then shuffles.

        A mask goes to the lanes where its elements lie, so that none is read that does not count.
        """
        lanes, total = self.indices.lanes, ""
        parts, shared = parts_of(index, lanes, near)
        for part in parts:
            at = index.shifted(part.start)
            known = self.text.recall(place.buffer.name, (at, kind)) if shared else None
            loaded = known.text if known else self._part(place, self.pointer(place, at), condition, part.taken, kind)
            if shared:
                self.text.remember(place.buffer.name, (at, kind), Value(loaded, place.buffer.dtype, lanes))
            total = total or loaded
            picked = shuffle_mask(part.taken.get(lane, lane - lanes) + lanes for lane in range(lanes))
            total = self.text.compute(f"shufflevector {kind} {total}, {kind} {loaded}, {picked}", total, loaded)
        if condition is not None:
            self._zeros[total] = condition.text
        return total

    def _near(self, place: BufferPointer, index: Index, condition: Value | None) -> str:
        """Elements that lie near one another, each lane's at a place that is known now, as those of x[j // 2]; "" where they do
        not."""
        lanes, numbers = self.indices.lanes, self.indices.numbers(index)
        counts = (True,) * lanes if condition is None else self.arithmetic.known.masks.get(condition.text)
        if numbers is not None and counts is None and condition is not None and condition.lanes:
            kind = memory_type(place.buffer.dtype, lanes)
            address, condition = self.by_lanes(self.pointer(place, Index(min(numbers), index.terms)), condition)
            load = partial(self._masked_load, place, address, kind=kind)
            return picked_where(self.text, self.arithmetic, load, kind, condition, numbers)
        if numbers is None or counts is None or not any(counts):
            return ""
        places = [number for number, counted in zip(numbers, counts, strict=True) if counted]
        first, last = min(places), max(places)
        length = last - first + 1
        if length > STRIDED_AT_MOST * lanes:
            return ""
        behind = [number - first if counted else 0 for number, counted in zip(numbers, counts, strict=True)]

        def pointer(further: int) -> str:
            return self.pointer(place, Index(first + further, index.terms))

        return picked(self.text, place.buffer, pointer, length, behind, movable=condition is None)

    def _part(
        self, place: BufferPointer, address: str, condition: Value | None, taken: dict[int, int], kind: str
    ) -> str:
        """A vector of which the lanes `taken` (lane of the result -> lane here) are needed where the condition holds."""
        if condition is None or not condition.lanes:
            return self._whole(place, address, condition, kind)
        address, condition = self.by_lanes(address, condition)
        sources = {here: lane for lane, here in taken.items()}
        mask = mask_from(self.text, condition, (sources.get(here, condition.lanes) for here in range(condition.lanes)))
        return self._masked_load(place, address, mask, kind)

    def _gather(self, place: BufferPointer, index: Index, condition: Value | None, kind: str) -> str:
        lanes = self.indices.lanes
        addresses = self._pointers(place, index)
        mask = self.arithmetic.spread(condition or TRUE, lanes)
        name = f"llvm.masked.gather.{_memory_suffix(place.buffer, lanes)}.v{lanes}p0"
        pointers = vector("ptr", lanes)
        call = self.arithmetic.module.intrinsic(name, kind, pointers, mask.type, kind)
        arguments = f"{pointers} align {place.buffer.dtype.bytes} {addresses}, {mask.typed}, {kind} zeroinitializer"
        movable = condition is None or bool(condition.lanes)
        return self.text.read(f"{call}({arguments})", place.buffer.name, addresses, mask.text, movable=movable)

    def _any(self, condition: Value) -> Value:
        if not condition.lanes:
            return condition
        call = self.arithmetic.module.intrinsic(f"llvm.vector.reduce.or.v{condition.lanes}i1", "i1", condition.type)
        return Value(self.text.pure(f"{call}({condition.typed})", condition.text), boolean)

    def _from_memory(self, loaded: str, place: BufferPointer, lanes: int) -> Value:
        dtype = place.buffer.dtype
        kind = memory_type(dtype, lanes)
        if dtype.name == "bool":
            zero = "zeroinitializer" if lanes else "0"
            return Value(self.text.compute(f"icmp ne {kind} {loaded}, {zero}", loaded), dtype, lanes)
        if dtype.name == "bf16":
            wide = vector("i32", lanes)
            sixteen = "splat (i32 16)" if lanes else "16"
            bits = self.text.compute(f"zext {kind} {loaded} to {wide}", loaded)
            bits = self.text.compute(f"shl {wide} {bits}, {sixteen}", bits)
            return Value(self.text.compute(f"bitcast {wide} {bits} to {value_type(dtype, lanes)}", bits), dtype, lanes)
        return Value(loaded, dtype, lanes)

    # Stores

    def store(
        self, place: BufferPointer, index: Index, value: Value, condition: Value | None, streaming: bool = False
    ) -> None:
        """buffer[index] = value where the condition holds (in each lane, for a vector). A vector index needs lanes."""
        lanes = 0 if index.is_scalar else self.indices.lanes
        if condition == FALSE:
            return
        if value.lanes != lanes:
            value = self.arithmetic.spread(value, lanes)
        if condition is not None and condition.is_literal and condition.text == "true":
            condition = None
        bits = self._to_memory(value)
        dtype = place.buffer.dtype
        if lanes and not (index.lane == 1 and not index.vector):
            self._scatter(place, index, bits, condition)
        elif condition is not None and condition.lanes:
            self._masked_store(place, self.pointer(place, index), bits, condition)
        else:
            address = self.pointer(place, index)
            if condition is not None:
                dump = self.text.dump()
                text = f"select {condition.typed}, ptr {address}, ptr {dump}"
                address = self.text.pure(text, condition.text, address)
            hint = self._streaming_hint(place, index, lanes) if streaming and condition is None else ""
            align = hint or f"align {dtype.bytes}"
            self.text.line(f"store {memory_type(dtype, lanes)} {bits}, ptr {address}, {align}")
        self.text.forget(place.buffer.name)
        if condition is None:
            self.text.remember(place.buffer.name, (index, lanes), value)

    def _masked_store(self, place: BufferPointer, address: str, bits: str, condition: Value) -> None:
        """A store of the lanes that count. Where processors have no masks for stores, or slow ones, it asks whether all do: on
        an EPYC of Zen 3 a store under a mask takes 12.8 cycles, any other one 1.1, and most vectors of a row are whole.
        """
        target, text = self.arithmetic.target, self.text
        counts = () if target.has_masks or target.is_gpu else self.arithmetic.known.masks.get(condition.text, ())
        if counts and counts == tuple(sorted(counts, reverse=True)):
            store_first(text, place.buffer.dtype, address, bits, sum(counts), len(counts))
            return
        masked = self._under_mask(place, address, bits, condition)
        if target.has_masks or target.is_gpu or condition.is_literal:
            text.line(masked)
            return
        name = f"llvm.vector.reduce.and.v{condition.lanes}i1"
        question = f"{self.arithmetic.module.intrinsic(name, 'i1', condition.type)}({condition.typed})"
        whole = f"store {memory_type(place.buffer.dtype, condition.lanes)} {bits}, ptr {address}"
        yes, no, after = (text.name("b") for _ in range(3))
        entrance = f"br i1 {text.pure(question, condition.text)}, label %{yes}, label %{no}"
        writes = frozenset({place.buffer.name})
        for terminator, label, line in (
            (entrance, yes, f"{whole}, align {place.buffer.dtype.bytes}"),
            ("", no, masked),
        ):
            text.open(terminator, label, writes=writes, branch=True)
            text.line(line)
            text.close(f"br label %{after}")
        text.start_block(after)

    def _under_mask(self, place: BufferPointer, address: str, bits: str, condition: Value) -> str:
        dtype, kind = place.buffer.dtype, memory_type(place.buffer.dtype, condition.lanes)
        hidden = self._hidden(condition, dtype)
        name = f"llvm.masked.store.{_memory_suffix(place.buffer, condition.lanes)}.p0"
        call = self.arithmetic.module.intrinsic(name, "void", kind, "ptr", hidden.type)
        return f"{call}({kind} {bits}, ptr align {dtype.bytes} {address}, {hidden.typed})"

    def _hidden(self, condition: Value, dtype: DType) -> Value:
        """The mask of a store, so that LLVM does not know which lanes count. For AVX-512 it joins the narrowing of integers
        with their store, and where it knows that one lane alone counts it then stores the whole wide number (LLVM 22), over
        what lies behind. That an empty instruction may have changed a mask register costs nothing."""
        narrow = (dtype == bf16 or not dtype.is_float) and dtype.bytes < 8
        if not narrow or "avx512f" not in self.arithmetic.target.features:
            return condition
        return condition._replace(text=self._hidden_mask(condition.text, condition.lanes))

    def _hidden_mask(self, mask: str, lanes: int) -> str:
        if lanes > MOST_MASK:
            half = lanes // 2
            low, high = (self._hidden_mask(self._lanes_of(mask, lanes, at, half), half) for at in (0, half))
            return self._lanes_of(low, half, 0, lanes, high)
        register = max(lanes, LEAST_MASK)
        held = self._lanes_of(mask, lanes, 0, register)
        held = self.text.pure(f'call <{register} x i1> asm "", "=^Yk,0"(<{register} x i1> {held})', held)
        return self._lanes_of(held, register, 0, lanes)

    def _lanes_of(self, mask: str, lanes: int, first: int, count: int, behind: str = "zeroinitializer") -> str:
        """Takes so many lanes of a mask and what stands behind it, from one on."""
        if first == 0 and count == lanes:
            return mask
        places = shuffle_mask(min(first + lane, 2 * lanes - 1) for lane in range(count))
        text = f"shufflevector <{lanes} x i1> {mask}, <{lanes} x i1> {behind}, {places}"
        return self.text.pure(text, mask, behind)

    def _streaming_hint(self, place: BufferPointer, index: Index, lanes: int) -> str:
        """Says how a streaming store is marked, "" if it cannot be one: it has to be aligned to its size. The function is run
        only when its streamed buffers begin at a multiple of that; see emit/cpu/module.py."""
        size = place.buffer.dtype.bytes
        step = min(size * lanes, self.arithmetic.target.vector_bits // 8)
        aligned = (
            all(times * size % step == 0 for times in (index.constant, *(t for _, t in index.terms))) if step else False
        )
        return f"align {step}, {NONTEMPORAL}" if aligned and step >= 16 else ""

    def _scatter(self, place: BufferPointer, index: Index, bits: str, condition: Value | None) -> None:
        lanes = self.indices.lanes
        addresses = self._pointers(place, index)
        mask = self.arithmetic.spread(condition or TRUE, lanes)
        kind, pointers = memory_type(place.buffer.dtype, lanes), vector("ptr", lanes)
        name = f"llvm.masked.scatter.{_memory_suffix(place.buffer, lanes)}.v{lanes}p0"
        call = self.arithmetic.module.intrinsic(name, "void", kind, pointers, mask.type)
        arguments = f"{kind} {bits}, {pointers} align {place.buffer.dtype.bytes} {addresses}, {mask.typed}"
        self.text.line(f"{call}({arguments})")

    def _to_memory(self, value: Value) -> str:
        lanes = value.lanes
        if value.is_literal:
            if not lanes and value.dtype in (boolean, bf16):
                return memory_literal(_literal_number(value), value.dtype)
            if not lanes:
                return value.text
        kind = memory_type(value.dtype, lanes)
        if value.dtype == boolean:
            return self.text.compute(f"zext {value.typed} to {kind}", value.text)
        if value.dtype == bf16:
            wide = vector("i32", lanes)
            sixteen = "splat (i32 16)" if lanes else "16"
            bits = self.text.compute(f"bitcast {value.typed} to {wide}", value.text)
            bits = self.text.compute(f"lshr {wide} {bits}, {sixteen}", bits)
            return self.text.compute(f"trunc {wide} {bits} to {kind}", bits)
        return value.text

    def prefetch(self, place: BufferPointer, index: Index, locality: int) -> None:
        """A hint for the line of lane 0."""
        address = self.pointer(place, Index(index.constant, index.terms))
        call = self.arithmetic.module.intrinsic("llvm.prefetch.p0", "void", "ptr", "i32", "i32", "i32")
        self.text.line(f"{call}(ptr {address}, i32 0, i32 {locality}, i32 1)")


def _memory_suffix(buffer: Buffer, lanes: int) -> str:
    if buffer.dtype in (boolean, bf16):
        return f"v{lanes}i{buffer.dtype.bytes * 8}"
    return suffix(buffer.dtype, lanes)


def _literal_number(value: Value) -> int | float:
    if value.dtype == boolean:
        return int(value.text == "true")
    import struct

    number: float = struct.unpack("<d", struct.pack("<Q", int(value.text, 16)))[0]
    return number
