"""Packing: words of narrow elements, where these lie side by side in memory already, or need no rounding.

What stands on the left is written as what stands on the right:

    byte_quad(i32(x[4 l]), i32(x[4 l + 1]), i32(x[4 l + 2]), i32(x[4 l + 3]))     one load of 32 bits
    byte_quad(i32(x[4 l]), select(4 l + 1 < n, i32(x[4 l + 1]), 0), ..)           one load, under a mask of its elements
    half_pair(i32(x[2 l]), i32(x[2 l + 1]))                                       one load of bytes, widened to halves
    bf16_word(f32(x[l]), f32(y[l]))                                               two loads, joined: they are bfloat16 already
    bf16_word(f32(bf16(x)), f32(bf16(y)))                                         x and y, rounded once
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...tensor.dtype import Kind, bf16, boolean, f32, i32
from ...tensor.expr import Cast, Const, Expr, Op, Read
from .index import Index
from .memory import BufferPointer, Memory
from .types import TRUE, Value, value_type, vector

# name of what makes a word -> bits of an element in it
PACKS = {"byte_quad": 8, "half_pair": 16, "bf16_pair": 16, "bf16_word": 16}
OF_BF16 = ("bf16_pair", "bf16_word")


@dataclass(frozen=True, slots=True)
class Elements:
    """Holds what a word is made of: reads of one tensor of elements as wide as they are in the word, or of bytes that become
    halves there, each under a condition or none, with zero where it does not hold; and what is added to each."""

    reads: tuple[Read, ...]
    guards: tuple[Expr | None, ...]
    added: int

    @property
    def widens(self) -> bool:
        """Says whether bytes become halves."""
        return self.reads[0].dtype.bits == 8 and len(self.reads) == 2


def elements_of(node: Op) -> Elements | None:
    """The elements of a word that is made of nothing but these."""
    bits = PACKS.get(node.name)
    found = [_element(arg) for arg in node.args] if bits is not None else []
    reads = [one[0] for one in found if one is not None]
    if not reads or len(reads) < len(found) or len({one[2] for one in found if one is not None}) > 1:
        return None
    widens = node.name == "half_pair" and reads[0].dtype.bits == 8
    if any(read.tensor != reads[0].tensor or read.dtype.bits != (8 if widens else bits) for read in reads):
        return None
    if (node.name in OF_BF16) != (reads[0].dtype == bf16):
        return None
    first = found[0]
    assert first is not None
    return Elements(tuple(reads), tuple(one[1] for one in found if one is not None), first[2])


def _element(expr: Expr) -> tuple[Read, Expr | None, int] | None:
    """A read, the condition under which it counts, and what is added."""
    match expr:
        case Cast(arg=Read() as read):
            return read, None, 0
        case Cast(arg=Op(name="select", args=(guard, Read() as read, Const(value=value)))) if value == 0:
            return read, guard, 0
        case Op(name="select", args=(guard, yes, Const(value=value))) if value == 0:
            found = _element(yes)
            if found is None or found[2]:
                return None
            both = guard if found[1] is None else Op("and", (guard, found[1]), boolean)
            return found[0], both, 0
        case Op(name="add" | "sub" as name, args=(inner, Const(value=value))) if isinstance(value, int):
            found = _element(inner)
            return None if found is None or found[2] else (found[0], found[1], value if name == "add" else -value)
    return None


def is_bf16(expr: Expr) -> bool:
    """Says whether an expression of f32 is a bfloat16 as it was read or rounded, or nothing in its place."""
    match expr:
        case Op(name="bf16_near"):
            return True
        case Cast(arg=Read(dtype=dtype) | Op(name="select", args=(_, Read(dtype=dtype), Const(value=0)))):
            return dtype == bf16
        case Op(name="select", args=(_, yes, Const(value=value))):
            return is_bf16(yes) and value == 0
    return False


def before_rounding(expr: Expr) -> Expr:
    """Returns an f32 as it was before it was rounded to bfloat16, where it is to be rounded again, which changes nothing."""
    match expr:
        case Cast(arg=Cast(arg=inner, dtype=dtype)) if dtype == bf16 and inner.dtype == f32:
            return inner
        case Op(name="select", args=(condition, yes, Const(value=0) as no)):
            return Op("select", (condition, before_rounding(yes), no), expr.dtype)
    return expr


def spread_byte(added: int, bits: int) -> int | None:
    """Returns what a word is xored with where half of an element's range is added to each; 0 for nothing, None for anything
    else."""
    if added % (1 << bits) == 0:
        return 0
    if added % (1 << bits) != 1 << (bits - 1):
        return None
    word = sum(1 << (bits * n + bits - 1) for n in range(32 // bits))
    return word - (1 << 32) if word >= 1 << 31 else word


def load_words(
    memory: Memory, place: BufferPointer, first: Index, mask: Value | None, guards: Sequence[Value | None]
) -> Value | None:
    """Words of 32 bits that begin at an element of each lane; None where they do not lie side by side. `guards`: of the
    elements of a word, which are zero where these do not hold."""
    dtype = place.buffer.dtype
    group, lanes = 32 // dtype.bits, 0 if first.is_scalar else memory.indices.lanes
    if lanes and (first.lane != group or first.vector):
        return None
    if any(guard is not None and guard != TRUE for guard in guards):
        if not lanes:
            return None
        whole = guards[0]
        if whole is None or any(guard != whole for guard in guards):
            return _guarded_words(memory, place, first, mask, guards)
        mask = memory.arithmetic.both(whole, mask)  # a border: all of a word, or none
    key = ("words", first, lanes)
    known = memory.text.recall(place.buffer.name, key)
    if known is None:
        kind, address = value_type(i32, lanes), memory.pointer(place, first)
        if mask is not None and mask.lanes and lanes:
            loaded = _masked_words(memory, place, address, mask, kind)
        else:
            if mask is not None and lanes:
                address = memory.chosen(address, mask)
            text = f"load {kind}, ptr {address}, align {dtype.bytes}"
            loaded = memory.text.read(text, place.buffer.name, address, movable=True)
        known = Value(loaded, i32, lanes)
        memory.text.remember(place.buffer.name, key if mask is None else (key, mask.text), known)
    return known


def load_halves(
    memory: Memory, place: BufferPointer, first: Index, mask: Value | None, guards: Sequence[Value | None]
) -> Value | None:
    """Words of two halves of bytes that begin at an element of each lane; None where bytes do not lie side by side, or some
    are left out."""
    lanes, dtype = memory.indices.lanes, place.buffer.dtype
    if first.is_scalar or first.lane != 2 or first.vector:
        return None
    if mask is not None or any(guard is not None and guard != TRUE for guard in guards):
        return None
    key = ("halves", first, lanes)
    known = memory.text.recall(place.buffer.name, key)
    if known is None:
        bytes_, halves, words = f"<{2 * lanes} x i8>", f"<{2 * lanes} x i16>", value_type(i32, lanes)
        address = memory.pointer(place, first)
        loaded = memory.text.read(f"load {bytes_}, ptr {address}, align 1", place.buffer.name, address, movable=True)
        extended = "sext" if dtype.kind is Kind.SIGNED else "zext"
        widened = memory.text.compute(f"{extended} {bytes_} {loaded} to {halves}", loaded)
        known = Value(memory.text.compute(f"bitcast {halves} {widened} to {words}", widened), i32, lanes)
        memory.text.remember(place.buffer.name, key, known)
    return known


def _guarded_words(
    memory: Memory, place: BufferPointer, first: Index, mask: Value | None, guards: Sequence[Value | None]
) -> Value:
    """One load of all elements of all words, under the mask that their conditions make in the order of memory."""
    lanes, dtype = memory.indices.lanes, place.buffer.dtype
    address, conditions = (
        memory.pointer(place, first),
        [memory.arithmetic.both(guard, mask) or TRUE for guard in guards],
    )
    apart = [memory.by_lanes(address, condition) for condition in conditions]
    if len({chosen for chosen, _ in apart}) == 1:  # what they all have in common
        address, conditions = apart[0][0], [condition for _, condition in apart]
    parts = [memory.arithmetic.spread(condition, lanes).text for condition in conditions]
    count = lanes
    while len(parts) > 1:  # the first half beside the second half: pairs of elements, in the end all
        half = len(parts) // 2
        kind, pairs = (
            f"<{count} x i1>",
            ", ".join(f"i32 {n + side * count}" for n in range(count) for side in (0, 1)),
        )
        parts = [
            memory.text.compute(f"shufflevector {kind} {one}, {kind} {two}, <{2 * count} x i32> <{pairs}>", one, two)
            for one, two in zip(parts[:half], parts[half:], strict=True)
        ]
        count *= 2
    kind = vector(f"i{dtype.bits}", count)
    name = f"llvm.masked.load.v{count}i{dtype.bits}.p0"
    call = memory.arithmetic.module.intrinsic(name, kind, "ptr", f"<{count} x i1>", kind)
    arguments = f"ptr align {dtype.bytes} {address}, <{count} x i1> {parts[0]}, {kind} zeroinitializer"
    loaded = memory.text.read(f"{call}({arguments})", place.buffer.name, address, parts[0], movable=True)
    words = value_type(i32, lanes)
    return Value(memory.text.compute(f"bitcast {kind} {loaded} to {words}", loaded), i32, lanes)


def _masked_words(memory: Memory, place: BufferPointer, address: str, mask: Value, kind: str) -> str:
    address, mask = memory.by_lanes(address, mask)
    name = f"llvm.masked.load.v{mask.lanes}i32.p0"
    call = memory.arithmetic.module.intrinsic(name, kind, "ptr", mask.type, kind)
    arguments = f"ptr align {place.buffer.dtype.bytes} {address}, {mask.typed}, {kind} zeroinitializer"
    return memory.text.read(f"{call}({arguments})", place.buffer.name, address, mask.text, movable=True)
