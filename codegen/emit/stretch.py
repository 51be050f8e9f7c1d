"""A short stretch of memory, loaded as it lies: two vectors from its first element to its last one, of which lanes are picked.

Nothing beyond the stretch is read, however long it is: the vectors overlap where its length is no power of two. Where only
some lanes count, and it is not known which, one masked vector reads what these want.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from ...tensor.dtype import boolean
from ..ir.loop_ir import Buffer
from ..math.body import shuffle_mask
from .text import FunctionText
from .types import Value, memory_type
from .values import Arithmetic

PICKING_AT_MOST = 4  # lanes that pick one element: each takes an instruction on masks


def picked(
    text: FunctionText,
    buffer: Buffer,
    pointer: Callable[[int], str],
    length: int,
    places: Iterable[int],
    movable: bool,
) -> str:
    """A vector of the elements at these places of a stretch of so many. `pointer`: the address of one of them; `movable`: as of
    `FunctionText.read`."""
    whole = 1 << (length.bit_length() - 1)
    behind = length - whole
    kind = memory_type(buffer.dtype, whole)
    vectors = []
    for place in (0, behind):
        address = pointer(place)
        load = f"load {kind}, ptr {address}, align {buffer.dtype.bytes}"
        vectors.append(text.read(load, buffer.name, address, movable=movable))
    mask = shuffle_mask(place if place < whole else whole + place - behind for place in places)
    return text.compute(f"shufflevector {kind} {vectors[0]}, {kind} {vectors[1]}, {mask}", *vectors)


def picked_where(
    text: FunctionText,
    arithmetic: Arithmetic,
    load: Callable[[Value], str],
    kind: str,
    condition: Value,
    numbers: Sequence[int],
) -> str:
    """The same for lanes for which a condition holds, of which nobody knows yet which those are: one masked vector. `load`: the
    vector that begins with the first element, where a mask holds; `numbers`: the place of each lane's element. "" where the
    stretch is longer than a vector, or too many lanes pick one element."""
    behind = [number - min(numbers) for number in numbers]
    picking = [[lane for lane, place in enumerate(behind) if place == here] for here in range(condition.lanes)]
    most = max(map(len, picking))
    if max(behind) >= condition.lanes or most > PICKING_AT_MOST:
        return ""
    sources = ([lanes[turn] if turn < len(lanes) else condition.lanes for lanes in picking] for turn in range(most))
    masks = (mask_from(text, condition, lanes) for lanes in sources)
    loaded = load(reduce(lambda one, other: arithmetic.apply("or", [one, other], boolean), masks))
    return text.compute(f"shufflevector {kind} {loaded}, {kind} poison, {shuffle_mask(behind)}", loaded)


def mask_from(text: FunctionText, condition: Value, sources: Iterable[int]) -> Value:
    """Returns a mask of which each lane is that of a condition in the lane that `sources` names for it, or off: of
    `condition.lanes`."""
    spread = f"shufflevector {condition.typed}, {condition.type} zeroinitializer, {shuffle_mask(sources)}"
    return Value(text.compute(spread, condition.text), boolean, condition.lanes)
