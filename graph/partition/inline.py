"""What is written where it is read, before stages are grouped: what is cheap, and what only moves data."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from ...schedules.access import is_anchor, moves_data_only, reads_of
from ...schedules.inlining import Inlining
from ...schedules.prepared import constant_tensors
from ...schedules.rules.cpu.window import shifting_axes, slides
from ...schedules.rules.inline import grows, inlines_free
from ...schedules.rules.row_groups import row_group
from ...tensor.expr import Const, Read, Var, variables
from ...tensor.indices.affine import affine
from ...tensor.program import Program, Stage
from ...tensor.stage_edits import needed_stages
from .places import copied


def inlined(program: Program, kept: frozenset[str], summed: AbstractSet[str]) -> Program:
    """The program with such stages written into their readers, from the outputs back. `kept`: stages to leave alone; `summed`:
    the reductions among them, with what finishes them."""
    now = Inlining(program)
    for name in [stage.name for stage in reversed(program.stages)]:
        stage = now.stage(name)
        if name in kept or not now.can_inline(stage):
            continue
        readers = now.consumers(name)
        if (
            _stays(program, stage, readers)
            or _stays_before_windows(stage, readers)
            or _stays_before_steps(program, stage, readers)
            or _meets_itself(stage, readers)
            or _stays_for_finishes(program, stage, readers)
            or _ends_rows(program, stage, readers, summed)
            or not inlines_free(stage, readers)
            or grows(now, stage, readers)
        ):
            continue
        now.inline(name)
    return needed_stages(now.program())  # what only chose among elements of another stage may have no reader any more


def _stays(program: Program, stage: Stage, readers: list[Stage]) -> bool:
    """Says whether readers would pay more for it than memory does: for quotients of indices, where the same memory under
    another shape costs nothing; for choices at each use, of tensors or of elements (but not of a whole matrix)."""
    if is_reshape(program, stage) or any(is_reshape(program, reader) for reader in readers):
        return True
    if not moves_data_only(stage) or (_is_affine(stage) and len({read.tensor for read in stage.reads()}) <= 1):
        return False
    return any(is_anchor(reader) and not _chooses_matrices(stage, reader) for reader in readers)


def _chooses_matrices(stage: Stage, reader: Stage) -> bool:
    """Says whether what a product reads of it is chosen by axes alone that all its operands have: once for all rows, columns
    and terms of the sum, as the weights of a group of rows are."""
    value = stage.expressions[0]
    if not isinstance(value, Read):
        return False
    atoms = [atom for index in value.indices for atom, _ in affine(index).terms if not isinstance(atom, Var)]
    chosen = {name for atom in atoms for name in variables(atom)}
    places = [n for n, axis in enumerate(stage.axes) if axis.name in chosen]
    at = {name for read in reads_of(reader, stage.name) for n in places for name in variables(read.indices[n])}
    return at <= {axis.name for axis in reader.axes} and all(at <= _axes_of(read) for read in reader.reads())


def _stays_before_windows(stage: Stage, readers: list[Stage]) -> bool:
    """Says whether the points of a window would compute, or choose, again what each of them shares with its neighbours."""
    plain = moves_data_only(stage) and len({read.tensor for read in stage.reads()}) <= 1
    return not plain and any(
        is_window(reader) and any(read.tensor == stage.name and slides(reader, read) for read in reader.reads())
        for reader in readers
    )


def _stays_before_steps(program: Program, stage: Stage, readers: list[Stage]) -> bool:
    """Says whether several products would each go through all of a tensor, in steps, for some of the elements of each line of
    memory. Weights of a transposed convolution, phase by phase: 512 to 256 channels, four by four elements, in two threads of a
    Zen 4: 1.2 ms for each of four phases, and 0.54 with 0.35 for the turn of all."""
    reads = stage.reads()
    if len(readers) < 2 or len(reads) != 1 or not reads[0].indices or not moves_data_only(stage):
        return False
    innermost = [n for n, axis in enumerate(stage.axes[:-1]) if axis.var == reads[0].indices[-1]]
    if not innermost or reads[0].tensor in constant_tensors(program):
        return False
    places = [(reader, read.indices[innermost[0]]) for reader in readers for read in reads_of(reader, stage.name)]
    return all(is_anchor(reader) and all(abs(step) > 1 for _, step in affine(at).terms) for reader, at in places)


def _stays_for_finishes(program: Program, stage: Stage, readers: list[Stage]) -> bool:
    """Says whether what finishes a product would read several tensors for it, as others do elsewhere: one that is made once is
    less to read. Gradients of a residual block, put together of the phases of a convolution with strides, in a fast
    convolution of 64 channels: 12.0 ms, and 6.9 where they are one tensor."""
    if len(readers) < 2 or len({read.tensor for read in stage.reads() if _is_as_large(stage, read)}) < 3:
        return False
    sources = {read.tensor for read in stage.reads()}
    finishing = [bool(_finished(program, reader) - sources) for reader in readers]
    return any(finishing) and not all(finishing)


def _is_as_large(stage: Stage, read: Read) -> bool:
    """Says whether a stage reads a tensor that varies along all of its axes."""
    return {axis.name for axis in stage.axes if axis.extent > 1} <= _axes_of(read)


def _finished(program: Program, reader: Stage) -> set[str]:
    """Returns the sums of products whose results a pointwise stage reads."""
    if reader.combiner is not None:
        return set()
    made = {read.tensor for read in reader.reads()} & program.producers.keys()
    return {tensor for tensor in made if is_anchor(program.producers[tensor])}


def _meets_itself(stage: Stage, readers: list[Stage]) -> bool:
    """Says whether a product that reads it reads one of its sources too: both operands would be the same tensor, at different
    places, and neither could be packed. Mostly these are the queries and keys that one product has made."""
    sources = {read.tensor for read in stage.reads()}
    return any(is_anchor(reader) and any(read.tensor in sources for read in reader.reads()) for reader in readers)


def _ends_rows(program: Program, stage: Stage, readers: list[Stage], summed: AbstractSet[str]) -> bool:
    """Says whether it reads sums of its own rows, which its readers would then read from another kernel: readers that are no
    kernel together, or one that is made of other rows (its indices of this stage are no axes). Inside of the kernel that sums
    up the rows, these sums stay in registers."""
    own = {axis.name for axis in stage.axes if axis.extent > 1}
    rows = [own & _axes_of(read) for read in stage.reads() if read.tensor in summed]
    if not any(row and row < own for row in rows):
        return False
    last = program.stage(readers[-1].name)
    if not {reader.name for reader in readers[:-1]} <= set(row_group(program, last, frozenset())[0]):
        return True
    here = [read for reader in readers if reader.combiner is None for read in reads_of(reader, stage.name)]
    return any(not isinstance(index, (Var, Const)) for read in here for index in read.indices)


def _axes_of(read: Read) -> set[str]:
    return {name for index in read.indices for name in variables(index)}


def is_window(stage: Stage) -> bool:
    """A reduction without reuse whose data slide under its points: a depthwise convolution, a pool."""
    if stage.combiner in (None, "fold") or is_anchor(stage):
        return False
    reduction, spatial = ({axis.name for axis in axes} for axes in (stage.reduction, stage.axes))
    moved = (set(shifting_axes(index)) for read in stage.reads() if slides(stage, read) for index in read.indices)
    return any(axes & reduction and axes & spatial for axes in moved)


def is_reshape(program: Program, stage: Stage) -> bool:
    """A copy in the order of memory that readers could follow by quotients and remainders of their indices alone."""
    return not _is_affine(stage) and copied(program, stage) is not None


def _is_affine(stage: Stage) -> bool:
    """Says whether all its reads move by fixed steps along its axes."""
    return all(
        isinstance(atom, Var) for read in stage.reads() for index in read.indices for atom, _ in affine(index).terms
    )
