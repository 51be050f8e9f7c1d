"""Reductions over what is put together of parts become reductions of each part, put together.

    c[i, k] = select(k < 4, a[i, k], b[i, k - 4])
    y[i] = sum[k: 12](c[i, k] * w[i, k])    ->    y[i] = sum[k: 4](a[i, k] * w[i, k]) + sum[k: 8](b[i, k] * w[i, k + 4])

So each part is computed where it is summed and never stored: samples of several images in deformable attention. Products that
are tiled stay whole, and so do sums of parts that are stored in any case, which cost nothing to put side by side.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import pairwise

from ...schedules.access import is_anchor, moves_data_only
from ...schedules.inlining import Inlining, can_inline
from ...tensor.dtype import DType, f32, f64, i64
from ...tensor.expr import Const, Expr, Op, Var, const, walk
from ...tensor.program import Axis, Program, Stage, Tensor
from ...tensor.stage_edits import free_name, needed_stages, reduced_over, result_of, simplified, with_stages
from .pieces import MOST

_TOGETHER = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
_STEPS = 3  # pointwise stages between a reduction and what it puts together


def parted_sums(program: Program) -> Program:
    """The program with reductions over joined tensors in parts."""
    inlining = Inlining(program)  # one for all: what is inlined for a reduction, nobody else reads
    found = {stage.name: parts for stage in program.stages if (parts := _in_parts(program, stage, inlining))}
    return needed_stages(with_stages(program, found)) if found else program


def _in_parts(program: Program, stage: Stage, inlining: Inlining) -> tuple[Stage, ...]:
    """A reduction as one for each part and what puts them together; nothing where it has no parts."""
    if stage.combiner not in _TOGETHER or len(stage.tensors) != 1 or not _is_exact(stage.tensors[0].dtype):
        return ()
    way = _way_to_joins(program, stage, _STEPS)
    if not way:
        return ()
    for name in way:
        inlining.inline(name)
    whole = simplified(inlining.stage(stage.name))
    cuts = {axis: ends for axis in whole.reduction if (ends := _ends(whole, axis))}
    if len(cuts) != 1 or is_anchor(whole):
        return ()
    (axis, ends), *_ = cuts.items()
    return _parts(program, whole, axis, ends) if len(ends) <= MOST else ()


def _is_exact(dtype: DType) -> bool:
    """Says whether results of parts are not rounded before they meet."""
    return dtype in (f32, f64) or dtype.is_integer


def _way_to_joins(program: Program, reader: Stage, steps: int) -> list[str]:
    """Returns the pointwise stages between a reduction and joins of what is computed, those included; readers come first."""
    found: list[str] = []
    for stage in _inner(program, reader):
        behind = _way_to_joins(program, stage, steps - 1) if steps else []
        if behind or _joins_computed(program, stage):
            found += [name for name in (stage.name, *behind) if name not in found]
    return found


def _inner(program: Program, reader: Stage) -> list[Stage]:
    """Returns the pointwise stages that nobody else reads."""
    names = dict.fromkeys(read.tensor for read in reader.reads() if read.tensor in program.producers)
    stages = [program.producers[name] for name in names]
    return [stage for stage in stages if len(program.consumers[stage.name]) == 1 and can_inline(program, stage)]


def _joins_computed(program: Program, stage: Stage) -> bool:
    """Says whether a stage puts parts side by side, one of which is computed for it alone."""
    joins = any(_cut_of(node) for body in stage.bodies for node in walk(body))
    return joins and any(not moves_data_only(part) for part in _inner(program, stage))


def _cut_of(node: Expr) -> tuple[str, int] | None:
    """The axis and its first value behind a part, of a choice between what lies before and what lies behind. Where parts were
    stacked, and their axis was put together with one of theirs, it is known by a quotient."""
    match node:
        case Op(name="select", args=(Op(name="lt", args=(place, Const(value=end))), _, _)):
            match place:
                case Var(name=axis):
                    return axis, int(end)
                case Op(name="floordiv", args=(Var(name=axis), Const(value=size))):
                    return axis, int(end) * int(size)
    return None


def _ends(stage: Stage, axis: Axis) -> list[int]:
    """Returns where the parts of an axis end; none where it has no parts."""
    cuts = {cut[1] for body in stage.bodies for node in walk(body) if (cut := _cut_of(node)) and cut[0] == axis.name}
    return [*sorted(cuts), axis.extent] if cuts else []


def _parts(program: Program, whole: Stage, axis: Axis, ends: list[int]) -> tuple[Stage, ...]:
    """The reduction of each part, and what they are together."""
    made: list[Stage] = []
    for begin, end in pairwise([0, *ends]):
        name = free_name(program, f"{whole.name}_part", {part.name for part in made})
        tensor = Tensor(name, whole.tensors[0].dtype, whole.tensors[0].shape)
        own = [Axis(one.name, end - begin) if one == axis else one for one in whole.reduction]
        at: Expr = axis.var + begin
        if end == begin + 1:
            own, at = [one for one in own if one.name != axis.name], const(begin, i64)
        made.append(reduced_over(replace(whole, tensors=(tensor,)), own, {axis.name: at}))
    name = _TOGETHER[str(whole.combiner)]
    parts: list[Expr] = [result_of(part) for part in made]
    together = reduce(lambda a, b: Op(name, (a, b), a.dtype), parts)
    return (*made, replace(whole, bodies=(together,), reduction=(), combiner=None))
