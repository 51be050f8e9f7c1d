"""Where tensors between kernels lie in memory: by themselves, or inside of another one, as the parts of a concat do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..codegen.rows import ArgumentRows, PitchedRows
from ..common.errors import InternalError
from ..tensor.program import Program

ALIGNMENT = 64  # bytes, a line of memory: where else a tensor or a row of it begins, vectors would lie across lines


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Tells of a tensor which one has its memory, at which element of that it begins, and in which rows it lies there; None
    where its elements lie side by side."""

    tensor: str
    start: int = 0
    rows: PitchedRows | None = None

    def is_aligned(self, size: int) -> bool:
        """Says whether each row begins at a line of memory, if the whole does. `size`: bytes of an element."""
        pitch = 0 if self.rows is None else self.rows.pitch
        return self.start * size % ALIGNMENT == 0 == pitch * size % ALIGNMENT

    def of_part(self, start: int, elements: int, rows: PitchedRows | None) -> TensorPlace | None:
        """Returns the place of a part of what lies here; None where its rows are not all as far apart."""
        outer = self.rows
        if outer is None:
            return TensorPlace(self.tensor, self.start + start, rows)
        line, column = divmod(start, outer.length)
        begin = self.start + line * outer.pitch + column
        if rows is not None:
            fits = rows.pitch == outer.length
            return TensorPlace(self.tensor, begin, PitchedRows(rows.length, outer.pitch)) if fits else None
        if column + elements <= outer.length:
            return TensorPlace(self.tensor, begin)
        return TensorPlace(self.tensor, begin, outer) if column == 0 and elements % outer.length == 0 else None

    def around(self, start: int, rows: PitchedRows | None) -> TensorPlace | None:
        """Returns the place of something of which this is the place of a part; None where that tells none."""
        if self.rows == rows:
            return TensorPlace(self.tensor, self.start - start)
        if self.rows is None:
            return None
        if rows is None:
            line, column = divmod(start, self.rows.length)
            return TensorPlace(self.tensor, self.start - line * self.rows.pitch, self.rows) if column == 0 else None
        if self.rows.length != rows.length:
            return None
        return TensorPlace(self.tensor, self.start - start, PitchedRows(rows.pitch, self.rows.pitch))


Inside = Mapping[str, TensorPlace]  # of tensors that lie in others


def root(name: str, aliases: Mapping[str, str]) -> str:
    """The tensor whose memory a tensor has. Errors: InternalError for aliases in a ring."""
    seen = {name}
    while name in aliases:
        name = aliases[name]
        if name in seen:
            raise InternalError("tensors are aliases of each other", found=", ".join(sorted(seen)))
        seen.add(name)
    return name


def place_of(name: str, aliases: Mapping[str, str], inside: Inside) -> TensorPlace:
    """The place of a tensor in one that has memory of its own."""
    own = root(name, aliases)
    return inside.get(own) or TensorPlace(own)


def argument_rows(kernel: Program, aliases: Mapping[str, str], inside: Inside) -> ArgumentRows:
    """The rows in which the arguments of a kernel lie."""
    names = [*(tensor.name for tensor in kernel.dynamic_inputs), *kernel.outputs]
    rows = tuple(place_of(name, aliases, inside).rows for name in names)
    return rows if any(rows) else ()
