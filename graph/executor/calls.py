"""What the caller of a model's kernels does, as data: which kernel on which memory, one after the other.

A `Slot` is an even number, the offset of memory in the workspace (a multiple of 64), or an odd one: 2 * n + 1 is argument n
of the model. Constants are arguments too; they are there while kernels prepare, and later those that are `held`: what a kernel
takes as an input it reads at each call, and so it does what an artifact holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...codegen.artifact import Artifact
from ...tensor.program import Program
from ..place import ALIGNMENT, Inside, place_of, root
from .check import tensor_bytes
from .memory import Arena, MemoryBlock, plan_arena

Slot = int


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel on its arguments. `prepared`, `workspace`: offsets in the memory that the model has for them.

    `prepares`: whether this call prepares its constants; a call of the same kernel on the same constants before it did it
    already otherwise.
    """

    kernel: int
    slots: tuple[Slot, ...]
    prepared: int
    workspace: int
    prepares: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """An output of the model that is the memory of another argument, or of an output before it."""

    source: Slot
    target: Slot
    bytes: int


@dataclass(frozen=True, slots=True)
class CallPlan:
    """The calls in order, and the copies after them. `kernels`: each artifact once, as calls count them."""

    kernels: tuple[Artifact, ...]
    calls: tuple[Call, ...]
    copies: tuple[Copy, ...]
    prepared_bytes: int
    preparing_bytes: int  # behind those; calls prepare in order, so that what one leaves there the next may overwrite
    arena: Arena
    held: tuple[int, ...]

    @property
    def workspace_bytes(self) -> int:
        """Returns what one run needs for tensors between kernels and for the kernels themselves."""
        return self.arena.peak_bytes


def plan_calls(
    program: Program,
    kernels: Sequence[Program],
    artifacts: Sequence[Artifact],
    aliases: Mapping[str, str],
    inside: Inside,
) -> CallPlan:
    """The plan of kernels that were checked (check.py)."""

    def slot(name: str) -> Slot:
        place = place_of(name, aliases, inside)
        return slots[place.tensor] + place.start * program.tensors[name].dtype.bytes

    unique = {_identity(artifact): artifact for artifact in artifacts}
    numbers = {one: number for number, one in enumerate(unique)}
    slots, copies, workspaces, arena = _places(program, kernels, artifacts, aliases, inside)
    calls: list[Call] = []
    prepared: dict[tuple[int, tuple[Slot, ...]], int] = {}
    end = most = 0
    for kernel, artifact, workspace in zip(kernels, artifacts, workspaces, strict=True):
        of_constants = tuple(slot(tensor.name) for tensor in kernel.constant_inputs)
        number = numbers[_identity(artifact)]
        key = number, of_constants
        first = artifact.prepared_bytes > 0 and key not in prepared
        if first:
            prepared[key] = end
            end += -(-artifact.prepared_bytes // ALIGNMENT) * ALIGNMENT
            most = max(most, end + artifact.preparing_bytes)
        names = [tensor.name for tensor in kernel.dynamic_inputs], kernel.outputs
        inputs, outputs = (tuple(map(slot, part)) for part in names)
        calls.append(Call(number, (*inputs, *of_constants, *outputs), prepared.get(key, 0), workspace, first))
    read = [tensor for kernel in kernels for tensor in kernel.dynamic_inputs]
    read += [k.constant_inputs[number] for k, a in zip(kernels, artifacts, strict=True) for number in a.held]
    taken = {root(tensor.name, aliases) for tensor in read}
    held = tuple(number for number, tensor in enumerate(program.constant_inputs) if tensor.name in taken)
    return CallPlan(tuple(unique.values()), tuple(calls), copies, end, max(0, most - end), arena, held)


def _identity(artifact: Artifact) -> tuple[object, ...]:
    """Equal for artifacts that may stand for each other."""
    return (
        artifact.symbol,
        artifact.code,
        artifact.parts,
        artifact.prepared_bytes,
        artifact.workspace_bytes,
        artifact.held,
    )


def _places(
    program: Program,
    kernels: Sequence[Program],
    artifacts: Sequence[Artifact],
    aliases: Mapping[str, str],
    inside: Inside,
) -> tuple[dict[str, Slot], tuple[Copy, ...], list[int], Arena]:
    """The slot of each tensor that has memory of its own, what is copied at the end, and the workspace of each call.

    Workspaces are blocks of the arena as the tensors are: that of a call lies where nothing is alive during it.
    """
    slots, copies = _of_arguments(program, aliases)
    blocks = _blocks(program, kernels, lambda name: place_of(name, aliases, inside).tensor, slots)
    workspaces = [MemoryBlock(a.workspace_bytes, n, n) for n, a in enumerate(artifacts) if a.workspace_bytes]
    arena = plan_arena([*blocks.values(), *workspaces])
    slots.update(zip(blocks, arena.offsets[: len(blocks)], strict=True))
    offsets = iter(arena.offsets[len(blocks) :])
    return slots, copies, [next(offsets) if a.workspace_bytes else 0 for a in artifacts], arena


def _of_arguments(program: Program, aliases: Mapping[str, str]) -> tuple[dict[str, Slot], tuple[Copy, ...]]:
    """The tensors that lie in arguments of the model. What is an output twice, or an input as well, is copied."""
    slots: dict[str, Slot] = {}
    copies: list[Copy] = []
    for number, tensor in enumerate((*program.dynamic_inputs, *program.constant_inputs)):
        slots[tensor.name] = 2 * number + 1
    for number, name in enumerate(program.outputs, len(slots)):
        slot, of = 2 * number + 1, root(name, aliases)
        if slots.setdefault(of, slot) != slot:
            copies.append(Copy(slots[of], slot, tensor_bytes(program.tensors[name])))
    return slots, tuple(copies)


def _blocks(
    program: Program, kernels: Sequence[Program], of: Callable[[str], str], placed: Mapping[str, Slot]
) -> dict[str, MemoryBlock]:
    """The tensors between kernels that have memory of their own, from the first call that writes to one to the last one that
    reads it. `of`: in which of them a tensor lies."""
    found: dict[str, MemoryBlock] = {}
    for number, kernel in enumerate(kernels):
        for tensor in kernel.dynamic_inputs:
            name = of(tensor.name)
            if name in found:
                found[name] = MemoryBlock(found[name].bytes, found[name].first, number)
        for name in map(of, kernel.outputs):
            if name not in placed:
                first = found[name].first if name in found else number
                found[name] = MemoryBlock(tensor_bytes(program.tensors[name]), first, number)
    return found
