"""integer_sums: sums of products of dequantised numbers become sums of integers, which are exact.

    X[c, p] = f32(i32(x[c, p]) - i32(zero)) * scale           as ONNX's DequantizeLinear says it
    W[o, c] = f32(w[o, c]) * scales[o]
    Y[o, p] = sum[c](X[c, p] * W[o, c])
    ->  Y_sums[o, p] = sum[c](i32(x[c, p]) * i32(w[o, c])),  Y_weights[o] = sum[c](i32(w[o, c]))
        Y[o, p] = f32(Y_sums[o, p] - i32(zero) * Y_weights[o]) * (scale * scales[o])

Each result is rounded three times, where each term was: it lies nearer to what the quantised numbers stand for.
The same holds of sums in i32 of numbers less their zero points (MatMulInteger, QLinearConv), where nothing is rounded at all.
Beyond a border, where the dequantised number is 0, the integer is the zero point.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import prod

from ...tensor.dtype import f32, i8, i32, u8
from ...tensor.expr import Cast, Const, Expr, Op, Read, call, substitute, variables
from ...tensor.indices.affine import simplify
from ...tensor.program import Program, Stage, Tensor
from ...tensor.stage_edits import factors, free_name, result_of, shape_of
from ..model import Model
from .needed import needed_model
from .numbers import Array
from .schemes import LONGEST

BYTES = (u8, i8)


@dataclass(frozen=True, slots=True)
class _Dequantized:
    """A factor: the integer that is read, under which condition, what is taken from it, and what it is multiplied with. A zero
    point is read where it can be, so that layers that differ in its number alone are one kernel."""

    read: Read
    guard: Expr | None
    zero: Expr | None
    scale: Expr | None


def integer_sums(model: Model) -> Model:
    """The model with such sums in integers. Others stay as they are."""
    program, stages = model.program, list[Stage]()
    for stage in program.stages:
        found = _operands(model, stage)
        if found is None:
            stages.append(stage)
        else:
            stages += _in_integers(program, stage, *found, {one.name for one in stages})
    if len(stages) == len(program.stages):
        return model
    return needed_model(replace(program, stages=tuple(stages)), model.constants, model.name)


def _operands(model: Model, stage: Stage) -> tuple[_Dequantized, _Dequantized] | None:
    """The data and the weights of a sum of products of dequantised numbers, of which the weights have no zero point."""
    if stage.combiner != "sum" or stage.tensors[0].dtype not in (f32, i32):
        return None
    parts = factors(stage.bodies[0])
    if len(parts) != 2 or prod(axis.extent for axis in stage.reduction) > LONGEST:
        return None
    found = [_dequantized(model, part) for part in parts]
    for data, weights in (found, found[::-1]):
        if data is None or weights is None or weights.zero is not None or weights.guard is not None:
            continue
        if all(one.scale is None for one in (data, weights)) and stage.tensors[0].dtype == f32:
            continue
        if data.zero is None and stage.tensors[0].dtype == i32:
            continue  # it is a sum of integers already
        if data.zero is not None and weights.read.tensor not in model.constants:
            continue
        inside = {axis.name for axis in stage.reduction}
        if data.zero is not None and inside - frozenset().union(*map(variables, weights.read.indices)):
            continue  # the sums of the weights would miss some terms
        outer = [one for one in (data.zero, data.scale, weights.scale) if one is not None]
        if any(inside & variables(one) for one in outer):
            continue
        if data.guard is not None and data.zero is not None and not isinstance(data.zero, Const):
            continue
        return data, weights
    return None


def _dequantized(model: Model, expr: Expr) -> _Dequantized | None:
    """A factor as an integer less a zero point, times a scale."""
    match expr:
        case Op(name="select", args=(guard, inner, Const(value=0))):
            found = _dequantized(model, inner)
            if found is None or found.guard is not None:
                return None
            return replace(found, guard=guard, zero=_known(model, found.zero))  # a border is made of the number
    value = _written_out(model.program, expr)
    scale: Expr | None = None
    match value:
        case Op(name="mul", args=(Cast() as number, (Read() | Const()) as scale)) if value.dtype == f32:
            value = number
    if value.dtype == f32:
        if not isinstance(value, Cast):
            return None
        value = value.arg
    zero: Expr | None = None
    match value:
        case Op(name="sub", args=(Cast() as number, away)) if value.dtype == i32:
            value, zero = number, away
    if isinstance(value, Cast) and value.dtype == i32:
        value = value.arg
    if not isinstance(value, Read) or value.dtype not in BYTES:
        return None
    known = _known(model, zero)
    if known == Const(0, i32):
        zero = None
    elif zero is not None and variables(zero):
        zero = known
    return _Dequantized(value, None, zero, scale)


def _known(model: Model, zero: Expr | None) -> Expr | None:
    """A zero point as the number that it is, where all of its tensor are one number."""
    match zero:
        case Cast(arg=Read() as read) if read.tensor in model.constants:
            values: Array = model.constants[read.tensor]
            if values.size and (values == values.flat[0]).all():
                return Const(int(values.flat[0]), i32)
    return zero


def _written_out(program: Program, expr: Expr) -> Expr:
    """Writes pointwise stages out where they are read, down to a product, a difference, or a read of something else."""
    while isinstance(expr, Read) and expr.dtype not in BYTES:
        stage = program.producers.get(expr.tensor)
        if stage is None or stage.combiner is not None or len(stage.tensors) != 1:
            return expr
        values: Mapping[str, Expr] = {a.name: i for a, i in zip(stage.axes, expr.indices, strict=True)}
        expr = simplify(substitute(stage.bodies[0], dict(values)))
    return expr


def _in_integers(
    program: Program, stage: Stage, data: _Dequantized, weights: _Dequantized, taken: Collection[str]
) -> list[Stage]:
    """The sums of integers, those of the weights if there is a zero point, and what makes the result of them."""
    read: Expr = data.read
    if data.guard is not None:
        zero = data.zero.value if isinstance(data.zero, Const) else 0
        read = call("select", data.guard, data.read, Const(zero, data.read.dtype))
    shape = stage.tensors[0].shape
    sums = Tensor(free_name(program, f"{stage.name}_sums", taken), i32, shape)
    body = read.cast(i32) * weights.read.cast(i32)
    made = [replace(stage, tensors=(sums,), bodies=(body,))]
    total: Expr = result_of(made[0])
    if data.zero is not None:
        names = frozenset().union(*map(variables, weights.read.indices))
        axes = tuple(axis for axis in stage.axes if axis.name in names)
        whole = Tensor(free_name(program, f"{stage.name}_weights", taken), i32, shape_of(axes))
        inside = tuple(axis for axis in stage.reduction if axis.name in names)
        made.append(Stage((whole,), axes, (weights.read.cast(i32),), inside, "sum", origin=stage.origin))
        total = total - data.zero * result_of(made[1])
    if stage.tensors[0].dtype == f32:
        total = total.cast(f32)
        scales = [one for one in (data.scale, weights.scale) if one is not None]
        total = total * (scales[0] * scales[1] if len(scales) == 2 else scales[0])
    return [*made, replace(stage, bodies=(total,), reduction=(), combiner=None)]
