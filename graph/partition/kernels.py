"""A group of stages as a program of its own, whose tensors keep their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from ...tensor.expr import reads
from ...tensor.program import Input, Program, Stage, Tensor


def kernel_of(program: Program, members: Iterable[str], prepared: frozenset[str]) -> Program:
    """The program of some stages.

    Its inputs are what they read and do not define, in the order in which that is met; its outputs what others read, or the
    program gives. Of `prepared`, the stages that only depend on constants, each kernel holds what it needs.

    Constants of which data choose the elements are inputs: there is nothing to prepare of them, and a kernel would keep a
    copy of a whole table for the few rows that a call reads.
    """
    chosen = set(members)
    stages = _with_prepared(program, chosen, prepared)
    defined = {tensor.name for stage in stages for tensor in stage.tensors}
    read = dict.fromkeys(r.tensor for stage in stages for r in stage.reads() if r.tensor not in defined)
    tables = {table.tensor.name: table for table in program.tables if table.tensor.name in read}
    constants = {tensor.name for tensor in program.constant_inputs}
    chosen_from = {name for name in read if _by_data_alone(name, stages, defined | tables.keys() | constants)}
    declared = {item.tensor.name: item for item in program.inputs if item.tensor.name not in chosen_from}
    inputs = [declared.get(name) or Input(_plain(program.tensors[name])) for name in read if name not in tables]
    outputs = [
        tensor.name
        for stage in stages
        if stage.name in chosen
        for tensor in stage.tensors
        if tensor.name in program.outputs or any(c.name not in chosen for c in program.consumers[tensor.name])
    ]
    return Program(tuple(inputs), tuple(stages), tuple(outputs), tuple(tables.values()), like=program)


def _by_data_alone(name: str, stages: Sequence[Stage], known: AbstractSet[str]) -> bool:
    """Says whether all reads of a tensor have an index that is read from an input."""
    found = [read for stage in stages for read in stage.reads() if read.tensor == name]
    return all(any(inner.tensor not in known for index in read.indices for inner in reads(index)) for read in found)


def _plain(tensor: Tensor) -> Tensor:
    return Tensor(tensor.name, tensor.dtype, tensor.shape)


def _with_prepared(program: Program, chosen: set[str], prepared: frozenset[str]) -> list[Stage]:
    """The chosen stages and what they need of those that are prepared, in the order of the program."""
    wanted, pending = set(chosen), list(chosen)
    while pending:
        for read in program.stage(pending.pop()).reads():
            producer = program.producers.get(read.tensor)
            if producer is not None and producer.name in prepared and producer.name not in wanted:
                wanted.add(producer.name)
                pending.append(producer.name)
    return [program.stage(name) for name in sorted(wanted, key=program.places.__getitem__)]
