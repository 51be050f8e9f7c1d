"""Terms of reductions that no point has are left out: axes of a reduction run over what their conditions leave.

    y[p: 16] = sum[r: 3](select(p + 36 * r - 36 >= 0 and p + 36 * r - 36 < 16, x[p + 36 * r - 36], 0) * w[r])
        ->      w_kept[] = w[1];  y[p: 16] = x[p] * w_kept[]

Windows that reach far beyond a small image are like that: what they find there is its border at every point. A term that is a
product with a guarded zero is left out too. That is no number for a weight that is infinite or NaN, where zero times it is NaN;
libraries do not multiply what lies in a border either. Constants are cut to what is still read, so that nobody keeps the rest.
An axis along which a stage reads what another one has made stays whole: stages of one length are scheduled together, as those
of an attention with fewer queries than keys are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ..dtype import i64
from ..expr import Cast, Const, Expr, Op, Read, Var
from ..identity import identity
from ..indices.affine import interval_of_form, simplify
from ..indices.bounds import Bound, bounds_of
from ..program import Axis, Program, Stage, Tensor
from ..stage_edits import axis_ranges, free_name, map_reads, map_stage, reduced_over

Places = Mapping[str, tuple[int, int]]  # axis -> its first place that is needed, and the one after the last


def trim_reductions(program: Program) -> Program:
    """The program without such terms. What runs over one place of an axis loses the axis."""
    stages: list[Stage] = []
    for stage in program.stages:
        needed = _needed(program, stage)
        cut = _cut_constants(program, stage, needed, {made.name for made in stages}) if needed else {}
        stages += [made for made, _ in cut.values()]
        stages.append(_trimmed(_reading(stage, {read: inner for read, (_, inner) in cut.items()}), needed))
    return program.replacing(tuple(stages))


def can_trim_reductions(program: Program) -> bool:
    """Tells whether a stage has such terms."""
    return any(_needed(program, stage) for stage in program.stages)


def is_cut(program: Program, stage: Stage) -> bool:
    """Tells whether a stage is a part of a constant, as what is still read of it is."""
    source = stage.bodies[0]
    if stage.combiner is not None or not isinstance(source, Read):
        return False
    given = {item.tensor.name: item.tensor for item in program.inputs if item.constant}
    return source.tensor in given and prod(stage.tensors[0].shape) < prod(given[source.tensor].shape)


def _reading(stage: Stage, kept: Mapping[Read, Read]) -> Stage:
    """The stage with other reads in place of some."""
    return map_stage(stage, lambda expr: map_reads(expr, lambda read: kept.get(read, read)))


def _trimmed(stage: Stage, needed: Places) -> Stage:
    """The stage over the places that are needed; an axis of one place is a number."""
    values: dict[str, Expr] = {}
    kept: list[Axis] = []
    for axis in stage.reduction:
        begin, end = needed.get(axis.name, (0, axis.extent))
        if axis.name in needed:
            values[axis.name] = Const(begin, i64) if end - begin == 1 else axis.var + begin
        if axis.name not in needed or end - begin > 1:
            kept.append(Axis(axis.name, end - begin))
    return reduced_over(stage, kept, values) if values else stage


def _cut_constants(
    program: Program, stage: Stage, needed: Places, taken: set[str]
) -> dict[Read, tuple[Stage, Read]]:  # fmt: skip
    """Reads of constants along trimmed axes: a stage of what is left of the constant, and how that is read."""
    found: dict[Read, tuple[Stage, Read]] = {}
    given = {item.tensor.name for item in program.inputs if item.constant}
    for read in stage.reads():
        spans = [needed.get(index.name) if isinstance(index, Var) else None for index in read.indices]
        if read.tensor not in given or not any(spans):
            continue
        name = free_name(program, f"{read.tensor}_kept", taken | {made.name for made, _ in found.values()})
        found[read] = _cut(program.tensors[read.tensor], read, spans, name, stage)
    return found


def _cut(
    source: Tensor, read: Read, spans: Sequence[tuple[int, int] | None], name: str, reader: Stage
) -> tuple[Stage, Read]:
    """A stage of the part of a tensor that `spans` name for some dimensions, and a read of it in place of one of the tensor."""
    axes: list[Axis] = []
    places: list[Expr] = []
    inner: list[Expr] = []
    for dimension, (index, extent, span) in enumerate(zip(read.indices, source.shape, spans, strict=True)):
        begin, end = span or (0, extent)
        axis = Axis(f"d{dimension}", end - begin)
        whole = span is None or end - begin > 1
        places.append(simplify(axis.var + begin) if whole else Const(begin, i64))
        if whole:
            axes.append(axis)
            inner.append(simplify(index - begin))
    made = Tensor(name, source.dtype, tuple(axis.extent for axis in axes))
    kept = Stage((made,), tuple(axes), (Read(source.name, tuple(places), source.dtype),), origin=reader.origin)
    return kept, Read(name, tuple(inner), source.dtype)


def _needed(program: Program, stage: Stage) -> Places:
    """The places of a reduction's axes that have terms, of those axes where some have none."""
    ranges, found, bounds = axis_ranges(stage), {}, bounds_of_reduction(stage)
    made = {index for read in stage.reads() if read.tensor in program.producers for index in read.indices}
    for axis in stage.reduction if bounds else ():
        if axis.var in made:
            continue
        begin, end = 0, axis.extent
        for bound in bounds:
            step = bound.coefficient(axis.var)
            least = interval_of_form(bound, {**ranges, axis.name: (0, 0)})[0]  # step * place + least <= 0 at some point
            if step > 0:
                end = min(end, -least // step + 1)
            elif step < 0:
                begin = max(begin, -(-least // -step))
        if (begin, end) != (0, axis.extent) and begin < end:
            found[axis.name] = begin, end
    return found


def bounds_of_reduction(stage: Stage) -> tuple[Bound, ...]:
    """Returns bounds that hold wherever a reduction has a term that counts; none for stages that are no such reductions."""
    if stage.combiner is None or stage.fold is not None:
        return ()
    return tuple(_bounds_of_terms(stage.bodies[0], stage.combiner))


def _bounds_of_terms(term: Expr, combiner: str) -> Iterator[Bound]:
    """Bounds that hold wherever a term is anything else than what the combiner ignores."""
    match term:
        case Op(name="select", args=(condition, value, Const(value=other))):
            if other == identity(combiner, term.dtype).value:
                yield from bounds_of(condition)
                yield from _bounds_of_terms(value, combiner)
        case Op(name="mul", args=factors) if combiner == "sum":
            for factor in factors:
                yield from _bounds_of_terms(factor, combiner)
        case Cast(arg=value) if combiner == "sum":
            yield from _bounds_of_terms(value, combiner)
