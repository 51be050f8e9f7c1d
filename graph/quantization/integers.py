"""integer_sums: sums of products of dequantised numbers become sums of integers, which are exact.

    X[c, p] = f32(i32(x[c, p]) - i32(zero)) * scale           as ONNX's DequantizeLinear says it
    W[o, c] = f32(w[o, c]) * scales[o]
    Y[o, p] = sum[c](X[c, p] * W[o, c])
    ->  Y_sums[o, p] = sum[c](i32(x[c, p]) * i32(w[o, c])),  Y_weights[o] = sum[c](i32(w[o, c]))
        Y[o, p] = f32(Y_sums[o, p] - i32(zero) * Y_weights[o]) * (scale * scales[o])

Each result is rounded three times, where each term was: it lies nearer to what the quantised numbers stand for.
The same holds of sums in i32 of numbers less their zero points (MatMulInteger, QLinearConv), where nothing is rounded at all.
Beyond a border, where the dequantised number is 0, the integer is the zero point.

Where the scales of weights belong to groups of the depth, so do the sums of integers:

    sum[k](X[i, k] * f32(w[k, j]) * s[k // 64, j])
    ->  Y_sums[g, i, j] = sum[k: 64](i32(x[i, 64 g + k]) * i32(w[64 g + k, j]))
        Y[i, j] = sum[g](f32(Y_sums[g, i, j] - i32(zero) * Y_weights[g, j]) * s[g, j]) * scale
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import prod

from ...tensor.dtype import f32, i8, i32, i64, u8
from ...tensor.expr import Cast, Const, Expr, Op, Read, Var, call, const, rewrite, substitute, variables, walk
from ...tensor.indices.affine import simplify
from ...tensor.program import Axis, Program, Stage, Tensor
from ...tensor.stage_edits import factors, free_axis_name, free_name, result_of, shape_of
from ..model import Model
from .needed import needed_model
from .numbers import Array
from .schemes import LONGEST

BYTES = (u8, i8)
LEAST_GROUP = 16  # points of the depth, of which a sum is worth a scale of its own


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
        outer = [one for one in (data.zero, data.scale) if one is not None]
        if any(inside & variables(one) for one in outer) or _group_of(stage, data, weights) == 0:
            continue
        if data.guard is not None and data.zero is not None and not isinstance(data.zero, Const):
            continue
        return data, weights
    return None


def _group_of(stage: Stage, data: _Dequantized, weights: _Dequantized) -> int:
    """The points of the depth that share a scale of the weights, 0 where there is no such number."""
    depth, scale = prod(axis.extent for axis in stage.reduction), weights.scale
    axes = {axis.name for axis in stage.reduction}
    if scale is None or not axes & variables(scale):
        return depth
    sizes: set[int] = set()
    for node in walk(scale):
        match node:
            case Op(name="floordiv", args=(Var(name=name), Const(value=int() as size))) if name in axes:
                sizes.add(size)
    if len(sizes) != 1 or len(axes) != 1 or data.guard is not None or stage.tensors[0].dtype != f32:
        return 0
    (size,) = sizes
    alone = not axes & variables(_grouped(scale, stage.reduction[0], size, const(0, i64)))
    return size if alone and size >= LEAST_GROUP and depth % size == 0 else 0


def _grouped(scale: Expr, depth: Axis, size: int, group: Expr) -> Expr:
    """A scale at a group of the depth, in place of one of its points."""

    def at(node: Expr) -> Expr | None:
        same = isinstance(node, Op) and node.name == "floordiv" and node.args == (depth.var, Const(size, i64))
        return group if same else None

    return rewrite(scale, at)


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
        case Op(name="mul", args=(number, (Read() | Const()) as scale)) if value.dtype == f32:
            value = _written_out(model.program, number)
    if value.dtype == f32:
        integer = _integer(model.program, value)
        if integer is None:
            return None
        value = integer
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
    return _Dequantized(_source(model.program, value), None, zero, scale)


def _integer(program: Program, value: Expr) -> Expr | None:
    """The integer of which a value is the float; a difference of two floats of bytes is that of their difference."""
    match value:
        case Cast(arg=integer):
            return integer
        case Op(name="sub", args=(left, right)):
            parts = [_written_out(program, part) for part in (left, right)]
            read = [part.arg for part in parts if isinstance(part, Cast) and part.arg.dtype in BYTES]
            return read[0].cast(i32) - read[1].cast(i32) if len(read) == len(parts) else None
    return None


def _source(program: Program, read: Read) -> Read:
    """The tensor of which a read sees a part, or another shape."""
    while (stage := program.producers.get(read.tensor)) is not None and stage.combiner is None:
        values: Mapping[str, Expr] = {a.name: i for a, i in zip(stage.axes, read.indices, strict=True)}
        moved = simplify(substitute(stage.bodies[0], dict(values)))
        if not isinstance(moved, Read) or len(stage.tensors) != 1:
            break
        read = moved
    return read


def _known(model: Model, zero: Expr | None) -> Expr | None:
    """A zero point as the number that it is, where all of its tensor are one number."""
    match zero:
        case Cast(arg=Read() as read) if (given := _source(model.program, read).tensor) in model.constants:
            values: Array = model.constants[given]
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
    size, ahead = _group_of(stage, data, weights), tuple[Axis, ...]()
    if size < prod(axis.extent for axis in stage.reduction):
        (depth,) = stage.reduction
        group = Axis(free_axis_name(stage, "group"), depth.extent // size)
        data, weights = (_in_group(one, depth, size, group) for one in (data, weights))
        stage, ahead = replace(stage, reduction=(replace(depth, extent=size),)), (group,)
    read: Expr = data.read
    if data.guard is not None:
        zero = data.zero.value if isinstance(data.zero, Const) else 0
        read = call("select", data.guard, data.read, Const(zero, data.read.dtype))
    sums = Tensor(free_name(program, f"{stage.name}_sums", taken), i32, shape_of((*ahead, *stage.axes)))
    body = read.cast(i32) * weights.read.cast(i32)
    made = [replace(stage, tensors=(sums,), axes=(*ahead, *stage.axes), bodies=(body,))]
    total: Expr = result_of(made[0])
    if data.zero is not None:
        names = frozenset().union(*map(variables, weights.read.indices))
        axes = tuple(axis for axis in (*ahead, *stage.axes) if axis.name in names)
        whole = Tensor(free_name(program, f"{stage.name}_weights", taken), i32, shape_of(axes))
        inside = tuple(axis for axis in stage.reduction if axis.name in names)
        made.append(Stage((whole,), axes, (weights.read.cast(i32),), inside, "sum", origin=stage.origin))
        total = total - data.zero * result_of(made[1])
    if stage.tensors[0].dtype == f32:
        total = total.cast(f32)
        if ahead and weights.scale is not None:
            scaled = Tensor(free_name(program, f"{stage.name}_scaled", taken), f32, shape_of(stage.axes))
            made.append(replace(stage, tensors=(scaled,), bodies=(total * weights.scale,), reduction=ahead))
            total, weights = result_of(made[-1]), replace(weights, scale=None)
        scales = [one for one in (data.scale, weights.scale) if one is not None]
        if scales:
            total = total * (scales[0] * scales[1] if len(scales) == 2 else scales[0])
    return [*made, replace(stage, bodies=(total,), reduction=(), combiner=None)]


def _in_group(factor: _Dequantized, depth: Axis, size: int, group: Axis) -> _Dequantized:
    """A factor at a point of a group of the depth."""
    place: Expr = group.var * size + depth.var
    indices = tuple(simplify(substitute(index, {depth.name: place})) for index in factor.read.indices)
    scale = factor.scale
    if scale is not None and depth.name in variables(scale):
        scale = _grouped(scale, depth, size, group.var)
    return replace(factor, read=replace(factor.read, indices=indices), scale=scale)
