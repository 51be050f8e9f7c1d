"""The values of REGISTER buffers: a table of what each element holds, kept while code is written."""

from __future__ import annotations

from ...common.errors import InternalError
from ...tensor.dtype import DType, f32
from ..ir.loop_ir import Buffer
from .transpose import column
from .types import Value, value_type
from .values import Arithmetic

Key = tuple[int, int, int]  # first element, step from lane to lane, lanes (0: a scalar)


class Registers:
    """The values of the REGISTER buffers, by element or vector of elements, in the dtype that `held_type` says."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        self.values: dict[str, dict[Key, Value]] = {}

    def get(self, buffer: Buffer, key: Key) -> Value:
        """The value; vectors that were stored in other pieces are put together."""
        held = self.values[buffer.name]
        value = held.get(key)
        if value is not None:
            return value
        start, step, lanes = key
        if not lanes:
            return self._element(buffer, start)
        crossed = self._column(held, key)
        if crossed is not None:
            return crossed
        parts = [self._element(buffer, start + step * lane) for lane in range(lanes)]
        text = "poison"
        kind = value_type(parts[0].dtype, lanes)
        for lane, part in enumerate(parts):
            operand = text
            insert = f"insertelement {kind} {operand}, {part.typed}, i64 {lane}"
            text = self.arithmetic.text.compute(insert, operand, part.text)
        return Value(text, parts[0].dtype, lanes)

    def _column(self, held: dict[Key, Value], key: Key) -> Value | None:
        """One lane of each of as many vectors, if that is what the key asks for: a matrix read across its rows."""
        start, step, lanes = key
        for first in range(start - lanes + 1, start + 1) if step > 1 else ():
            if (first, 1, lanes) not in held:
                continue
            rows = [held[k] for lane in range(lanes) if (k := (first + step * lane, 1, lanes)) in held]
            if len(rows) == lanes:
                return column(self.arithmetic.text, rows, start - first)
        return None

    def find(self, buffer: Buffer, key: Key) -> Value | None:
        """The value stored under exactly this key."""
        return self.values[buffer.name].get(key)

    def set(self, buffer: Buffer, key: Key, value: Value) -> None:
        """Stores; pieces of another shape that overlap are taken apart."""
        held = self.values[buffer.name]
        if key not in held:
            elements = set(_elements(key))
            near = [other for other in held if _last(other) >= key[0] and other[0] <= _last(key)]
            for other in [other for other in near if elements & set(_elements(other))]:
                old = held.pop(other)
                for lane, element in enumerate(_elements(other)):
                    if element not in elements:
                        held[(element, 0, 0)] = self.arithmetic.lane(old, lane)
        held[key] = value

    def _element(self, buffer: Buffer, element: int) -> Value:
        held = self.values[buffer.name]
        for key, value in held.items():
            members = _elements(key)
            if element in members:
                return self.arithmetic.lane(value, members.index(element))
        raise InternalError(
            f"element {element} of the register buffer {buffer.name!r} is read before it is stored",
            advice="this is a defect of the lowering; please report it with the loop IR",
        )


def held_type(buffer: Buffer) -> DType:
    """16-bit floats are f32 while they are in registers: sums are more exact, and are rounded once instead of at each step."""
    return f32 if buffer.dtype.is_float and buffer.dtype.bits == 16 else buffer.dtype


def _last(key: Key) -> int:
    start, step, lanes = key
    return start + step * max(0, lanes - 1)


def _elements(key: Key) -> list[int]:
    start, step, lanes = key
    return [start + step * lane for lane in range(lanes)] if lanes and step else [start]
