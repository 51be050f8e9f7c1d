"""A list of kernels must compute everything before it is read, once, and every output in the end.

What is wrong with it is a defect of whoever cut the program, and would show as wrong numbers. So it is checked each time
that kernels are joined, which is linear in their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ...codegen.rows import PitchedRows
from ...common.errors import InternalError
from ...tensor.program import Program, Tensor
from ..place import ALIGNMENT, Inside, TensorPlace, place_of, root

_SHOWN = 5
NOBODY = -1
Pieces = NDArray[np.int32]


def check_calls(program: Program, kernels: Sequence[Program], aliases: Mapping[str, str], inside: Inside) -> None:
    """Raises InternalError that lists what is wrong with these kernels of a program, called in this order."""
    found = list(islice(_faults(program, kernels, aliases, inside), _SHOWN))
    if found:
        raise InternalError(
            "the kernels do not compute the program",
            expected="each tensor written once, before it is read, and every output in the end",
            found="; ".join(found),
        )


class _Written:
    """The kernel that has written each piece of memory, of `ALIGNMENT` bytes: tensors that lie in others have their own."""

    def __init__(self, program: Program, aliases: Mapping[str, str], inside: Inside) -> None:
        self._program, self._aliases, self._inside = program, aliases, inside
        self._writers: dict[str, Pieces] = {}

    def write(self, name: str, number: int) -> int | None:
        """Notes a kernel that writes a tensor; the kernel that wrote some of it before, if any did."""
        pieces = self._pieces(name)
        before = int(pieces.max(initial=NOBODY))
        pieces[...] = number
        return None if before == NOBODY else before

    def has(self, name: str) -> bool:
        """Says whether all of a tensor was written."""
        return bool((self._pieces(name) != NOBODY).all())

    def _pieces(self, name: str) -> Pieces:
        """The pieces of a tensor, row by row: a view, through which those of the whole are written."""
        place, tensor = place_of(name, self._aliases, self._inside), self._program.tensors[name]
        whole = self._program.tensors[place.tensor]
        if place.tensor not in self._writers:
            self._writers[place.tensor] = np.full(-(-tensor_bytes(whole) // ALIGNMENT), NOBODY, np.int32)
        size, elements = tensor.dtype.bytes, prod(tensor.shape)
        first = self._writers[place.tensor][place.start * size // ALIGNMENT :]
        if place.rows is None:
            return first[: -(-elements * size // ALIGNMENT)]
        length, pitch = (-(-part * size // ALIGNMENT) for part in (place.rows.length, place.rows.pitch))
        return as_strided(first, (elements // place.rows.length, length), (pitch * first.itemsize, first.itemsize))


def _faults(program: Program, kernels: Sequence[Program], aliases: Mapping[str, str], inside: Inside) -> Iterator[str]:
    unsound = [*_of_aliases(program, aliases), *_of_inside(program, aliases, inside)]
    if unsound:
        yield from unsound
        return
    constants = {tensor.name for tensor in program.constant_inputs}
    given = {tensor.name for tensor in program.dynamic_inputs}
    arguments = given | constants
    written = _Written(program, aliases, inside)
    for number, kernel in enumerate(kernels):
        for tensor in (
            *kernel.dynamic_inputs,
            *kernel.constant_inputs,
            *map(kernel.tensors.__getitem__, kernel.outputs),
        ):
            yield from _same(number, tensor, program)
        for name in (tensor.name for tensor in kernel.dynamic_inputs if tensor.name in program.tensors):
            if root(name, aliases) not in arguments and not written.has(name):
                yield f"kernel {number} reads {root(name, aliases)}, which is not computed yet"
        for tensor in kernel.constant_inputs:
            if root(tensor.name, aliases) not in constants:
                yield f"kernel {number} takes {tensor.name} as a constant, which is none"
        for name in kernel.outputs:
            if name in given or name in constants or name in aliases:
                yield f"kernel {number} writes {name}, which is {'an alias' if name in aliases else 'an input'}"
            elif name in program.tensors and (before := written.write(name, number)) is not None:
                yield f"kernels {before} and {number} both write {name}"
    for name in program.outputs:
        if root(name, aliases) not in given and not written.has(name):
            yield f"the output {name} is not written"


def _of_aliases(program: Program, aliases: Mapping[str, str]) -> Iterator[str]:
    for name, other in aliases.items():
        one, of = program.tensors.get(name), program.tensors.get(other)
        if one is None or of is None:
            yield f"the alias {name} of {other}: there is no {name if one is None else other}"
        elif one.dtype != of.dtype or tensor_bytes(one) != tensor_bytes(of):
            found, wanted = (f"{tensor_bytes(tensor)} bytes of {tensor.dtype}" for tensor in (one, of))
            yield f"the alias {name} of {other} has {found}, that has {wanted}"
        else:
            root(name, aliases)


def _of_inside(program: Program, aliases: Mapping[str, str], inside: Inside) -> Iterator[str]:
    arguments = {*(item.tensor.name for item in program.inputs), *(root(name, aliases) for name in program.outputs)}
    for name, place in inside.items():
        whole = place.tensor
        one, of = program.tensors.get(name), program.tensors.get(whole)
        if one is None or of is None or whole in inside or whole in aliases or name in aliases:
            yield f"{name} lies in {whole}, and one of them is no tensor with memory of its own"
        elif one.dtype != of.dtype or not _fits(place, prod(one.shape), prod(of.shape), one.dtype.bytes):
            yield f"{name} lies at element {place.start} of {whole}, which has {prod(of.shape)}, in {place.rows}"
        elif {name, whole} & arguments:
            yield f"{name} lies in {whole}, and one of them is an argument"


def _fits(place: TensorPlace, elements: int, room: int, size: int) -> bool:
    """Says whether a tensor begins at a piece of memory, all rows of it do, and the last one ends where there is room."""
    rows = place.rows or PitchedRows(elements, elements)
    whole = elements % rows.length == 0 and rows.length <= rows.pitch
    return whole and place.is_aligned(size) and 0 <= place.start <= room - rows.end(elements)


def _same(number: int, tensor: Tensor, program: Program) -> Iterator[str]:
    known = program.tensors.get(tensor.name)
    if known != tensor:
        what = "there is none" if known is None else f"it is {known.dtype}{list(known.shape)}"
        yield f"kernel {number} has {tensor.name}: {tensor.dtype}{list(tensor.shape)}, in the program {what}"


def tensor_bytes(tensor: Tensor) -> int:
    """Counts the bytes of all its elements."""
    return prod(tensor.shape) * tensor.dtype.bytes
