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

_SHOWN = 5


def check_calls(program: Program, kernels: Sequence[Program], aliases: Mapping[str, str]) -> None:
    """Raises InternalError that lists what is wrong with these kernels of a program, called in this order."""
    found = list(islice(_faults(program, kernels, aliases), _SHOWN))
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


def _faults(program: Program, kernels: Sequence[Program], aliases: Mapping[str, str]) -> Iterator[str]:
    unsound = list(_of_aliases(program, aliases))
    if unsound:
        yield from unsound
        return
    constants = {tensor.name for tensor in program.constant_inputs}
    given = {tensor.name for tensor in program.dynamic_inputs}
    written: dict[str, int] = {}
    for number, kernel in enumerate(kernels):
        for tensor in (
            *kernel.dynamic_inputs,
            *kernel.constant_inputs,
            *map(kernel.tensors.__getitem__, kernel.outputs),
        ):
            yield from _same(number, tensor, program)
        for name in (root(tensor.name, aliases) for tensor in kernel.dynamic_inputs):
            if name not in given and name not in constants and name not in written:
                yield f"kernel {number} reads {name}, which is not computed yet"
        for tensor in kernel.constant_inputs:
            if root(tensor.name, aliases) not in constants:
                yield f"kernel {number} takes {tensor.name} as a constant, which is none"
        for name in kernel.outputs:
            if name in given or name in constants or name in aliases:
                yield f"kernel {number} writes {name}, which is {'an alias' if name in aliases else 'an input'}"
            elif name in written:
                yield f"kernels {written[name]} and {number} both write {name}"
            written[name] = number
    for name in program.outputs:
        of = root(name, aliases)
        if of not in written and of not in given:
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


def _same(number: int, tensor: Tensor, program: Program) -> Iterator[str]:
    known = program.tensors.get(tensor.name)
    if known != tensor:
        what = "there is none" if known is None else f"it is {known.dtype}{list(known.shape)}"
        yield f"kernel {number} has {tensor.name}: {tensor.dtype}{list(tensor.shape)}, in the program {what}"


def tensor_bytes(tensor: Tensor) -> int:
    """Counts the bytes of all its elements."""
    return prod(tensor.shape) * tensor.dtype.bytes
