"""What is written where it is read, before stages are grouped: what is cheap, and what only moves data."""

from __future__ import annotations

from ...schedules.access import is_anchor, moves_data_only
from ...schedules.inlining import Inlining
from ...schedules.rules.cpu.window import slides
from ...schedules.rules.inline import grows, inlines_free
from ...tensor.expr import Var
from ...tensor.indices.affine import affine
from ...tensor.program import Program, Stage
from .places import copied


def inlined(program: Program, kept: frozenset[str]) -> Program:
    """The program with such stages written into their readers, from the outputs back. `kept`: stages to leave alone."""
    now = Inlining(program)
    for name in [stage.name for stage in reversed(program.stages)]:
        stage = now.stage(name)
        if name in kept or not now.can_inline(stage):
            continue
        readers = now.consumers(name)
        if (
            _stays(program, stage, readers)
            or _stays_before_windows(stage, readers)
            or not inlines_free(stage, readers)
            or grows(now, stage, readers)
        ):
            continue
        now.inline(name)
    return now.program()


def _stays(program: Program, stage: Stage, readers: list[Stage]) -> bool:
    """Says whether readers would pay more for it than memory does: for quotients of indices, where the same memory under
    another shape costs nothing; for choices between tensors at each use."""
    if is_reshape(program, stage) or any(is_reshape(program, reader) for reader in readers):
        return True
    if not moves_data_only(stage) or (_is_affine(stage) and len({read.tensor for read in stage.reads()}) <= 1):
        return False
    return any(is_anchor(reader) for reader in readers)


def _stays_before_windows(stage: Stage, readers: list[Stage]) -> bool:
    """Says whether the points of a window would compute, or choose, again what each of them shares with its neighbours."""
    plain = moves_data_only(stage) and len({read.tensor for read in stage.reads()}) <= 1
    return not plain and any(
        is_window(reader) and any(read.tensor == stage.name and slides(reader, read) for read in reader.reads())
        for reader in readers
    )


def is_window(stage: Stage) -> bool:
    """A reduction without reuse whose data slide: a depthwise convolution, a pool."""
    if stage.combiner in (None, "fold") or is_anchor(stage):
        return False
    return any(slides(stage, read) for read in stage.reads())


def is_reshape(program: Program, stage: Stage) -> bool:
    """A copy in the order of memory that readers could follow by quotients and remainders of their indices alone."""
    return not _is_affine(stage) and copied(program, stage) is not None


def _is_affine(stage: Stage) -> bool:
    """Says whether all its reads move by fixed steps along its axes."""
    return all(
        isinstance(atom, Var) for read in stage.reads() for index in read.indices for atom, _ in affine(index).terms
    )
