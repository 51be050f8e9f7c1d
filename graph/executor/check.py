"""A list of kernels must compute everything before it is read, once, and every output in the end.

What is wrong with it is a defect of whoever cut the program, and would show as wrong numbers. So it is checked each time
that kernels are joined, which is linear in their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import prod

from ...common.errors import InternalError
from ...tensor.program import Program, Tensor
from .memory import ALIGNMENT

_SHOWN = 5


Inside = Mapping[str, tuple[str, int]]  # of a tensor that lies in another one: that, and the byte at which it begins


def check_calls(program: Program, kernels: Sequence[Program], aliases: Mapping[str, str], inside: Inside) -> None:
    """Raises InternalError that lists what is wrong with these kernels of a program, called in this order."""
    found = list(islice(_faults(program, kernels, aliases, inside), _SHOWN))
    if found:
        raise InternalError(
            "the kernels do not compute the program",
            expected="each tensor written once, before it is read, and every output in the end",
            found="; ".join(found),
        )


def root(name: str, aliases: Mapping[str, str]) -> str:
    """The tensor whose memory a tensor has. Errors: InternalError for aliases in a ring."""
    seen = {name}
    while name in aliases:
        name = aliases[name]
        if name in seen:
            raise InternalError("tensors are aliases of each other", found=", ".join(sorted(seen)))
        seen.add(name)
    return name


def place_of(name: str, aliases: Mapping[str, str], inside: Inside) -> tuple[str, int]:
    """The tensor that has memory of its own in which a tensor lies, and the byte at which it begins."""
    own = root(name, aliases)
    return inside.get(own, (own, 0))


class _Written:
    """The bytes of tensors that kernels have written, and which kernel."""

    def __init__(self, program: Program, aliases: Mapping[str, str], inside: Inside) -> None:
        self._program, self._aliases, self._inside = program, aliases, inside
        self._spans: dict[str, list[tuple[int, int, int]]] = {}

    def write(self, name: str, number: int) -> int | None:
        """Notes a kernel that writes a tensor; the kernel that wrote some of it before, if any did."""
        spans, start, end = self._span(name)
        before = next((other for first, last, other in spans if first < end and start < last), None)
        spans.append((start, end, number))
        return before

    def has(self, name: str) -> bool:
        """Whether all of a tensor was written: no byte is written twice, so that sizes tell."""
        spans, start, end = self._span(name)
        return sum(max(0, min(last, end) - max(first, start)) for first, last, _ in spans) >= end - start

    def _span(self, name: str) -> tuple[list[tuple[int, int, int]], int, int]:
        of, start = place_of(name, self._aliases, self._inside)
        return self._spans.setdefault(of, []), start, start + tensor_bytes(self._program.tensors[name])


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
    for name, (whole, start) in inside.items():
        one, of = program.tensors.get(name), program.tensors.get(whole)
        if one is None or of is None or whole in inside or whole in aliases or name in aliases:
            yield f"{name} lies in {whole}, and one of them is no tensor with memory of its own"
        elif start < 0 or start % ALIGNMENT or start + tensor_bytes(one) > tensor_bytes(of):
            yield f"{name} lies at byte {start} of {whole}, which has {tensor_bytes(of)}"
        elif {name, whole} & arguments:
            yield f"{name} lies in {whole}, and one of them is an argument"


def _same(number: int, tensor: Tensor, program: Program) -> Iterator[str]:
    known = program.tensors.get(tensor.name)
    if known != tensor:
        what = "there is none" if known is None else f"it is {known.dtype}{list(known.shape)}"
        yield f"kernel {number} has {tensor.name}: {tensor.dtype}{list(tensor.shape)}, in the program {what}"


def tensor_bytes(tensor: Tensor) -> int:
    """Counts the bytes of all its elements."""
    return prod(tensor.shape) * tensor.dtype.bytes
