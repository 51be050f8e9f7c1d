"""Zeros that are added to a sum: gradients of embeddings, and scatters that start from zeros, are the sum alone.

    t[i] = sum[k](...);  y[i] = 0 + t[i]    ->    y[i] = sum[k](...)

A sum starts at zero, so it is never -0, the one number that adding zero would change. As a stage of its own the addition is a
pass over memory, and the sum needs a place beside that of the result: 94 MB of an embedding of BERT.
"""

from __future__ import annotations

from dataclasses import replace

from ...schedules.access import identity_read
from ...tensor.expr import Const, Expr, Op, Read
from ...tensor.program import Program, Stage


def without_added_zeros(program: Program) -> Program:
    """The program whose sums are made where a stage would only add zero to them."""
    sums = {found: stage for stage in program.stages if (found := _sum_of(program, stage)) is not None}
    if not sums:
        return program
    gone = {stage.name for stage in sums.values()}
    return program.replacing(
        tuple(
            replace(stage, tensors=sums[stage.name].tensors) if stage.name in sums else stage
            for stage in program.stages
            if stage.name not in gone
        )
    )


def _sum_of(program: Program, stage: Stage) -> str | None:
    """Returns the sum of which a stage is a copy, with zero added, and that nothing else reads."""
    read = _beside_zero(stage.bodies[0]) if len(stage.bodies) == 1 and stage.combiner is None else None
    producer = None if read is None else program.producers.get(read.tensor)
    if read is None or producer is None or producer.combiner != "sum" or len(producer.tensors) > 1:
        return None
    same = identity_read(read, stage) and producer.tensors[0].shape == stage.tensors[0].shape
    alone = len(program.consumers[read.tensor]) == 1 and read.tensor not in program.outputs
    return producer.name if same and alone else None


def _beside_zero(body: Expr) -> Read | None:
    match body:
        case Op(name="add", args=(Const(value=zero), Read() as read) | (Read() as read, Const(value=zero))) if (
            zero == 0
        ):
            return read
    return None
