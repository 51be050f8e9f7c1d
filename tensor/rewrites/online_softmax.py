"""online_softmax: softmax in one pass, as a fold.

m = max(m, x), l = l * exp(m_old - m) + exp(x - m), and, where a weighted sum follows, o = o * exp(m_old - m) + exp(x - m) v.
Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; with the weighted sum: Rabe and Staats,
Self-attention does not need O(n^2) memory, 2021; Dao et al., FlashAttention, 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..dtype import least_finite
from ..expr import Const, Expr, Local, Op, Read, call, rewrite, substitute, walk
from ..indices.affine import simplify
from ..program import Axis, Fold, Program, Stage, Tensor
from ..stage_edits import factors, find_stage, free_name, product, refuse


def online_softmax(program: Program, stage: str) -> Program:
    """A softmax, found from its maximum, becomes a fold over the axis of the maximum.

    Args:
        stage: the stage m[outer] = max[j](x). The program must have l[outer] = sum[j](exp(x - m[outer])), and either a
            weighted sum O[outer, d] = sum[j](exp(x - m) / l * v) that reads them, or any stages that read m and l.
            Pointwise stages in between are looked through.

    With a weighted sum the fold gives m, l and NAME_sum, and O = NAME_sum / l; without it m and l alone, and what reads them
    stays. Errors: ProgramError where there is no such softmax.
    """
    top = find_stage(program, stage)
    if top.combiner != "max" or len(top.reduction) != 1 or not top.bodies[0].dtype.is_float:
        raise refuse(top, "this stage is no maximum over one axis of floats")
    total = find_total(program, top)
    weighted = find_weighted(program, top, total.stage)
    return _with_fold(program, top, total, weighted)


@dataclass(frozen=True, slots=True)
class Weighted:
    """O[outer, own axes] = sum[j](select(seen, powers / l * weight, 0)); `seen`: None where all terms count. `divisor`: l, or
    max(l, constant), for rows in which nothing counts."""

    stage: Stage
    axis: Axis
    weight: list[Expr]
    seen: Expr | None
    divisor: Expr


@dataclass(frozen=True, slots=True)
class Total:
    """l[outer] = sum[j](select(seen, exp(x - m), 0))"""

    stage: Stage
    seen: Expr | None


def guarded(expr: Expr) -> tuple[Expr | None, Expr]:
    """(condition, value) of select(condition, value, 0); no condition for anything else."""
    match expr:
        case Op(name="select", args=(condition, value, Const(value=0))):
            return condition, value
    return None, expr


def only(seen: Expr | None, value: Expr) -> Expr:
    """The value where the condition holds, 0 elsewhere."""
    return value if seen is None else call("select", seen, value, Const(0.0, value.dtype))


def inlined(program: Program, expr: Expr, keep: frozenset[str]) -> Expr:
    """The expression with reads of pointwise stages replaced by what they compute, but for tensors in `keep`."""

    def replace_read(node: Expr) -> Expr | None:
        if not isinstance(node, Read) or node.tensor in keep or node.tensor not in program.producers:
            return None
        producer = program.producers[node.tensor]
        if producer.reduction:
            return None
        number = [t.name for t in producer.tensors].index(node.tensor)
        body = inlined(program, producer.bodies[number], keep)
        return substitute(body, {a.name: index for a, index in zip(producer.axes, node.indices, strict=True)})

    return rewrite(expr, replace_read)


def renamed(expr: Expr, old: tuple[Axis, ...], new: tuple[Axis, ...]) -> Expr:
    """The expression over other axes, by position."""
    return simplify(substitute(expr, {a.name: b.var for a, b in zip(old, new, strict=True)}))


def _power_of(expr: Expr) -> Expr | None:
    """Returns x where the expression is exp(x)."""
    return expr.args[0] if isinstance(expr, Op) and expr.name == "exp" else None


def _raised(expr: Expr) -> tuple[Expr, float]:
    """(value, constant) of max(value, constant); -inf as the constant of anything else."""
    match expr:
        case Op(name="max", args=(value, Const(value=least))):
            return value, float(least)
    return expr, -math.inf


def _is_power(program: Program, expr: Expr, top: Stage, axes: tuple[Axis, ...], axis: Axis) -> bool:
    """Says whether `expr` is exp(x - m) over `axes` and `axis`, x being what `top` takes the maximum of. Where m is -inf, the
    least finite number may stand for it: such a power is 0, as it is in the fold."""
    power = _power_of(expr)
    if not isinstance(power, Op) or power.name != "sub" or len(axes) != len(top.axes):
        return False
    keep = frozenset((top.name,))
    wanted = renamed(inlined(program, top.bodies[0], keep), (*top.axes, *top.reduction), (*axes, axis))
    maximum = Read(top.name, tuple(a.var for a in axes), top.bodies[0].dtype)
    subtracted, least = _raised(power.args[1])
    finite = least in (-math.inf, least_finite(maximum.dtype))
    return finite and subtracted == maximum and simplify(power.args[0]) == wanted


def find_total(program: Program, top: Stage) -> Total:
    """The sum of exp(x - m). Errors: ProgramError where there is none."""
    for stage in program.stages:
        if stage.combiner == "sum" and len(stage.reduction) == 1 and len(stage.axes) == len(top.axes):
            seen, body = guarded(inlined(program, stage.bodies[0], frozenset((top.name,))))
            if _is_power(program, body, top, stage.axes, stage.reduction[0]):
                return Total(stage, seen)
    raise refuse(top, "no stage sums exp(x - this maximum) over the same axis")


def find_weighted(program: Program, top: Stage, total: Stage) -> Weighted | None:
    """The sum of exp(x - m) / l * weight, where there is one."""
    keep = frozenset((top.name, total.name))
    rank = len(top.axes)
    for stage in program.stages:
        if stage.combiner != "sum" or stage is total or len(stage.reduction) != 1 or len(stage.axes) < rank:
            continue
        (axis,), outer = stage.reduction, stage.axes[:rank]
        divisors: list[Expr] = []
        weights: list[Expr] = []
        divisor = Read(total.name, tuple(a.var for a in outer), total.bodies[0].dtype)
        seen, term = guarded(inlined(program, stage.bodies[0], keep))
        for part in factors(term):
            match part:
                case Op(name="div", args=(power, below)) if _raised(below)[0] == divisor and _is_power(
                    program, power, top, outer, axis
                ):
                    divisors.append(below)
                case _:
                    weights.append(part)
        if len(divisors) == 1 and weights and not _reads_any(weights, keep):
            return Weighted(stage, axis, weights, seen, divisors[0])
    return None


def _reads_any(exprs: list[Expr], names: frozenset[str]) -> bool:
    return any(isinstance(node, Read) and node.tensor in names for expr in exprs for node in walk(expr))


def _with_fold(program: Program, top: Stage, sums: Total, weighted: Weighted | None) -> Program:
    """Puts the fold where the last of its stages stood, and drops what nothing reads any more."""
    dtype, total = top.bodies[0].dtype, sums.stage
    axes = weighted.stage.axes if weighted else top.axes
    axis = weighted.axis if weighted else top.reduction[0]
    outer = axes[: len(top.axes)]
    x = renamed(top.bodies[0], (*top.axes, *top.reduction), (*outer, axis))
    old_max, old_sum = (Read(s.name, tuple(a.var for a in outer), dtype) for s in (top, total))
    largest, scale, power = (Local(name, dtype) for name in _local_names(axes, axis, top, total))
    seen = None if sums.seen is None else renamed(sums.seen, total.all_axes, (*outer, axis))
    # While all x are -inf, exp(-inf - -inf) would be NaN where the definition adds exp(-inf - m) = 0.
    nothing = largest.equal(-math.inf)
    values = (
        (largest.name, call("max", old_max, x)),
        (scale.name, call("select", nothing, Const(1.0, dtype), call("exp", old_max - largest))),
        (power.name, only(seen, call("select", nothing, Const(0.0, dtype), call("exp", x - largest)))),
    )
    tensors, bodies = [top.tensors[0], total.tensors[0]], [largest, old_sum * scale + power]
    kept = [tuple(a.name for a in outer)] * 2
    initial = [Const(-math.inf, dtype), Const(0.0, dtype)]
    replaced: dict[str, Stage] = {}
    if weighted is not None:
        own = Tensor(free_name(program, f"{weighted.stage.name}_sum"), dtype, weighted.stage.tensors[0].shape)
        place = tuple(a.var for a in axes)
        before = Read(own.name, place, dtype)
        tensors.append(own)
        bodies.append(before * scale + only(weighted.seen, power * product(weighted.weight)))
        kept.append(tuple(a.name for a in axes))
        initial.append(Const(0.0, dtype))
        body = before / weighted.divisor
        replaced[weighted.stage.name] = replace(weighted.stage, bodies=(body,), reduction=(), combiner=None)
    parts = Fold(tuple(kept), tuple(initial), values)
    fold = Stage(tuple(tensors), axes, tuple(bodies), (axis,), "fold", parts, top.origin)
    return ordered(program, (fold,), replaced, {top.name, total.name})


def _local_names(axes: tuple[Axis, ...], axis: Axis, top: Stage, total: Stage) -> list[str]:
    taken = {a.name for a in axes} | {axis.name, top.name, total.name}
    names: list[str] = []
    for base in ("largest", "scale", "power"):
        name = base
        while name in taken:
            name += "_"
        names.append(name)
    return names


def ordered(program: Program, made: tuple[Stage, ...], replaced: dict[str, Stage], gone: set[str]) -> Program:
    """The stages that outputs need, each after those it reads; `made` take the place of those in `gone`."""
    stages = [*made, *(replaced.get(s.name, s) for s in program.stages if s.name not in gone)]
    producers = {tensor.name: stage for stage in stages for tensor in stage.tensors}
    done: dict[str, Stage] = {}
    waiting = [(producers[name], False) for name in reversed(program.outputs)]
    while waiting:
        stage, is_ready = waiting.pop()
        if is_ready:
            done[stage.name] = stage
        elif stage.name not in done:
            waiting.append((stage, True))
            waiting += [(producers[r.tensor], False) for r in reversed(stage.reads()) if r.tensor in producers]
    return program.replacing(tuple(done.values()))
