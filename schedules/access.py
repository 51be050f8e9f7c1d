"""How the reads of a stage move with its axes: the facts that the rules in auto.py decide by. No names of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from math import prod

from ..common.remembered import remembered
from ..tensor.dtype import i64
from ..tensor.exceptional import exceptional_condition
from ..tensor.expr import Const, Expr, Op, Read, Var, reads, rewrite, variables, walk
from ..tensor.indices.affine import affine
from ..tensor.indices.forms import group_of
from ..tensor.indices.members import member_axes
from ..tensor.indices.scatter import scattered, scattered_points
from ..tensor.language import MATHEMATICS
from ..tensor.program import Program, Stage

EXPENSIVE = frozenset(MATHEMATICS) | {"div", "floordiv", "mod", "bf16_pair", "bf16_word"}
STRIDED_AT_MOST = 4  # elements from lane to lane up to which whole vectors are loaded, and lanes of them picked


def element_stride(program: Program, read: Read, axis: str) -> int | None:
    """Returns how many elements apart two reads are whose axis differs by one. 0: they are the same; None: not affine."""
    shape = program.tensors[read.tensor].shape
    total, step = 0, 1
    for index, extent in zip(reversed(read.indices), reversed(shape), strict=True):
        if axis in variables(index):
            form = affine(index)
            if any(not isinstance(atom, Var) and axis in variables(atom) for atom, _ in form.terms):
                return None
            total += form.coefficient(Var(axis)) * step
        step *= extent
    return total


def inside_panels(read: Read, axis: str, points: int) -> Read:
    """Returns a read as it moves with an axis inside of panels of a multiple of so many points, from where one begins on: there
    x % 16 moves as x does, and x // 16 stays what it is."""

    def inside(node: Expr) -> Expr | None:
        match node:
            case Op(name="floordiv" | "mod" as name, args=(Var(name=moving), Const(value=panel))) if moving == axis:
                if panel > 0 and panel % points == 0:
                    return node.args[0] if name == "mod" else Const(0, i64)
        return None

    return replace(read, indices=tuple(rewrite(index, inside) for index in read.indices))


def output_stride(stage: Stage, axis: str, number: int = 0) -> int:
    """Returns how many elements apart two points of a stage's tensor are whose axis differs by one."""
    step, found = 1, 0
    for a in reversed(stage.axes_of(number)):
        if a.name == axis:
            found = step
        step *= a.extent
    return found


def depends(read: Read, axis: str) -> bool:
    """Tells whether the read moves with the axis."""
    return any(axis in variables(index) for index in read.indices)


def uses_again(read: Read, axis: str) -> bool:
    """Tells whether neighbours along an axis read the same: the read does not move with it, or from group to group alone
    (axis // size), as the data of a grouped convolution do before its axes are split (tensor/rewrites/normalise_groups.py)."""
    return all(axis not in variables(rewrite(index, lambda node: _group_number(node, axis))) for index in read.indices)


def _group_number(node: Expr, axis: str) -> Expr | None:
    """A number in place of axis // size, None for anything else."""
    name, size = group_of(node) or ("", 1)
    return Const(size, i64) if name == axis and size > 1 else None


@remembered
def is_anchor(stage: Stage) -> bool:
    """Tells whether a stage is a reduction worth tiling: some spatial axis uses again each operand that it goes over. One that
    counts the members of joined reductions is none: each member makes something else of an operand."""
    if stage.combiner in (None, "fold") or exceptional_condition(stage) is not None or scattered(stage) is not None:
        return False
    reduction = {a.name for a in stage.reduction}
    walked = [r for r in stage.reads() if any(depends(r, a) for a in reduction)]
    spatial = [a for a in stage.axes if a.extent > 1 and a.name not in member_axes(stage)]
    return len(walked) > 0 and all(any(uses_again(r, a.name) for a in spatial) for r in walked)


@remembered
def contiguous_axis(program: Program, stage: Stage) -> str | None:
    """Returns the axis along which most accesses (the write among them) are contiguous; reduction axes count too. Reads that
    lie side by side are contiguous together: x[2 k] and x[2 k + 1] are. An axis along which data choose another line for each
    point counts less by all points: along the lines themselves vectors read them."""
    best: tuple[float, int, str] | None = None
    accesses = stage.reads()
    beside: dict[object, list[Read]] = {}
    for read in accesses:
        beside.setdefault((read.tensor, read.indices[:-1]), []).append(read)
    lines = [read for read in accesses if any(element_stride(program, read, axis.name) == 1 for axis in stage.all_axes)]
    for position, axis in enumerate(stage.all_axes):
        if axis.extent == 1:
            continue
        score = 0.0
        for read in accesses:
            weight = prod(program.tensors[read.tensor].shape) or 1
            if _walks(program, read, beside[read.tensor, read.indices[:-1]], axis.name):
                score += weight
        score -= points_of(stage) * sum(_chosen_along(read, axis.name) for read in lines)
        if axis in stage.axes and output_stride(stage, axis.name) == 1:
            score += prod(a.extent for a in stage.axes)
        if score > 0 and (best is None or (score, position) > best[:2]):
            best = (score, position, axis.name)
    return best[2] if best else None


def _chosen_along(read: Read, axis: str) -> bool:
    """Says whether the place of a read depends on what is read at each point of an axis."""
    return any(axis in variables(inner) for index in read.indices for inner in reads(index))


def _walks(program: Program, read: Read, beside: Sequence[Read], axis: str) -> bool:
    """Says whether a read, and those of the same row beside it, take one element after the other along an axis."""
    stride = element_stride(program, read, axis)
    if stride is None or not 1 < stride <= STRIDED_AT_MOST:
        return stride == 1
    places = [affine(other.indices[-1]).minus(affine(read.indices[-1])) for other in beside]
    return len({place.constant % stride for place in places if place.is_constant}) == stride


def points_of(stage: Stage) -> int:
    """Counts the points at which the body of a stage is evaluated."""
    return prod(a.extent for a in stage.all_axes) // scattered_points(stage)


def visits(read: Read, reader: Stage, size: int) -> int:
    """Counts the points at which a stage reads of a tensor of so many elements, at most: where each is read at one point alone,
    as what is put together reads each of its parts, no more than there are."""
    places = [affine(index).terms for index in read.indices]
    single = {terms[0][0] for terms in places if len(terms) == 1}
    one_to_one = all(axis.var in single for axis in reader.all_axes if axis.extent > 1)
    return min(points_of(reader), size) if one_to_one else points_of(reader)


def uses_of(stage: Stage, read: Read) -> int:
    """Counts the points of a stage that need each element of what it reads, for each term of a reduction."""
    return prod(axis.extent for axis in stage.axes if not depends(read, axis.name))


def operations_of(stage: Stage) -> int:
    """Counts the operations of a body on values: what indices and guards compute is left out."""
    return sum(
        isinstance(n, Op) and n.dtype.name not in ("i64", "bool") for e in stage.expressions for n in set(walk(e))
    )


def is_expensive(stage: Stage) -> bool:
    """Tells whether the body has a division or a function in it."""
    return any(isinstance(n, Op) and n.name in EXPENSIVE for e in stage.expressions for n in walk(e))


def moves_data_only(stage: Stage) -> bool:
    """Tells whether a stage computes nothing on values, as padding, slices and transposes do not."""
    return not any(
        isinstance(n, Op)
        and n.dtype.name != "i64"
        and n.name not in ("select", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not")
        for e in stage.expressions
        for n in walk(e)
    )


def identity_read(read: Read, stage: Stage) -> bool:
    """Tells whether the indices are the spatial axes of the stage, each once, in order, and nothing else."""
    return tuple(read.indices) == tuple(a.var for a in stage.axes)


def reads_of(stage: Stage, tensor: str) -> tuple[Read, ...]:
    """Returns the distinct reads of one tensor."""
    return tuple(r for r in stage.reads() if r.tensor == tensor)


def plain_dimension(read: Read, axis: str) -> int | None:
    """Returns the dimension that the axis itself indexes; None if there is none or the axis occurs elsewhere too."""
    found = [n for n, index in enumerate(read.indices) if axis in variables(index)]
    if len(found) != 1 or read.indices[found[0]] != Var(axis):
        return None
    return found[0]


def moves_apart(read: Read) -> bool:
    """Tells whether no axis moves two of the indices: a box of what is read is then as small as the boxes of its axes."""
    names = [name for index in read.indices for name in variables(index)]
    return len(set(names)) == len(names)


def finished(program: Program, stage: Stage, taken: Set[str], fits: Callable[[Read, Stage], bool]) -> Stage | None:
    """Returns the only producer that a pointwise stage finishes: no other stage reads it, and the read and the producer fit."""
    if stage.combiner is not None or len(stage.tensors) != 1:
        return None
    found = []
    for read in stage.reads():
        producer = program.producers.get(read.tensor)
        if producer is None or producer.name in taken or producer.name in program.outputs:
            continue
        readers = [reader for reader in program.consumers[producer.name] if exceptional_condition(reader) is None]
        if len(readers) == 1 and fits(read, producer):
            found.append(producer)
    return found[0] if len(found) == 1 else None
