"""factor_sums: what stays the same over groups of the depth multiplies the sum of a group, in place of each of its terms.

    W[k, j] = f32(q[k, j] - 8) * f32(scale[k // 64, j])
    C[i, j] = sum[k](x[i, k] * W[k, j])
    ->  C_groups[g, i, j] = sum[k: 64](x[i, 64 g + k] * f32(q[64 g + k, j] - 8))
        C[i, j] = sum[g](C_groups[g, i, j] * f32(scale[g, j]))

Pointwise stages that are made of constants alone are written into the sum first. Weights in few bits stay as they are then:
what a processor reads is what the program holds. Each term loses a product and a rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..dtype import f32
from ..expr import Cast, Const, Expr, Op, Read, rewrite, substitute, variables, walk
from ..indices.affine import simplify
from ..program import Axis, Program, Stage, Tensor
from ..stage_edits import (
    factors,
    find_stage,
    free_axis_name,
    free_name,
    needed_stages,
    product,
    refuse,
    result_of,
    shape_of,
    simplified,
    with_stages,
)


@dataclass(frozen=True, slots=True)
class _Grouped:
    """A sum over groups of its only reduction axis: factors that move within a group, and those that do not."""

    stage: Stage
    groups: Axis
    depth: Axis
    inner: tuple[Expr, ...]
    outer: tuple[Expr, ...]


def factor_sums(program: Program, stage: str, group: int) -> Program:
    """A sum of products over one axis becomes a sum over its groups of sums over a group.

    Args:
        stage: a sum of products in f32 over one axis.
        group: points of the axis in a group, which divide it.

    Errors: ProgramError where no factor stays the same over a group.
    """
    found = _grouped(program, find_stage(program, stage), group)
    name = free_name(program, f"{stage}_groups")
    whole = found.groups.extent == 1
    ahead = () if whole else (found.groups,)
    tensor = Tensor(name, f32, shape_of((*ahead, *found.stage.axes)))
    sums = replace(
        found.stage, tensors=(tensor,), axes=(*ahead, *found.stage.axes), bodies=(product(found.inner),),
        reduction=(found.depth,),
    )  # fmt: skip
    body = product([result_of(sums), *found.outer])
    total = replace(found.stage, bodies=(body,), reduction=ahead, combiner=None if whole else "sum")
    return needed_stages(with_stages(program, {stage: (simplified(sums), simplified(total))}))


def group_of_sum(program: Program, stage: Stage) -> int | None:
    """The longest group of the depth over which some factor of a sum of weights in few bits stays the same, or None."""
    if stage.combiner != "sum" or len(stage.reduction) != 1 or stage.tensors[0].dtype != f32:
        return None
    depth = stage.reduction[0]
    body = _written_out(program, stage)
    sizes = {depth.extent}
    for node in walk(body):
        match node:
            case Op(name="floordiv", args=(over, Const(value=int() as size))) if depth.name in variables(over):
                if size > 1 and depth.extent % size == 0:
                    sizes.add(size)
    for size in sorted(sizes, reverse=True):
        found = _parts(stage, body, size)
        if found is not None and any(map(_is_narrow, found.inner)):
            return size
    return None


def _grouped(program: Program, stage: Stage, group: int) -> _Grouped:
    if stage.combiner != "sum" or len(stage.reduction) != 1 or stage.tensors[0].dtype != f32:
        raise refuse(stage, "this stage is no sum in f32 over one axis", expected="sum[k](x * y * ..)")
    extent = stage.reduction[0].extent
    if group < 1 or extent % group:
        raise refuse(stage, "groups do not divide the axis", expected=f"a divisor of {extent}", found=str(group))
    found = _parts(stage, _written_out(program, stage), group)
    if found is None:
        raise refuse(
            stage, "no factor stays the same over a group, or all do", expected="a product of both kinds of factors"
        )
    return found


def _parts(stage: Stage, body: Expr, group: int) -> _Grouped | None:
    """The factors of a body, by whether they move within a group."""
    depth = stage.reduction[0]
    groups = Axis(free_axis_name(stage, "g"), depth.extent // group)
    inside = replace(depth, extent=group)
    bounds = {axis.name: (0, axis.extent - 1) for axis in (*stage.axes, groups, inside)}
    place = groups.var * group + depth.var if groups.extent > 1 else depth.var
    whole = [simplify(one, bounds) for one in factors(substitute(body, {depth.name: place}))]
    inner = tuple(one for one in whole if depth.name in variables(one))
    outer = tuple(one for one in whole if depth.name not in variables(one))
    return _Grouped(stage, groups, inside, inner, outer) if inner and any(map(_reads_some, outer)) else None


def _reads_some(expr: Expr) -> bool:
    return any(isinstance(node, Read) for node in walk(expr))


def _is_narrow(expr: Expr) -> bool:
    """Says whether a factor is an integer of at most 8 bits, or made of one."""
    return isinstance(expr, Cast) and any(
        isinstance(node, Read) and node.dtype.is_integer and node.dtype.bits <= 8 for node in walk(expr)
    )


def _written_out(program: Program, stage: Stage) -> Expr:
    """The body of a stage with the bodies of pointwise stages of constants wherever it reads these."""
    made = _of_constants(program)

    def expand(node: Expr) -> Expr | None:
        if not isinstance(node, Read) or node.tensor not in made:
            return None
        source = made[node.tensor]
        values = {axis.name: index for axis, index in zip(source.axes, node.indices, strict=True)}
        return rewrite(substitute(source.bodies[0], values), expand)

    return rewrite(stage.bodies[0], expand)


def _of_constants(program: Program) -> dict[str, Stage]:
    """Pointwise stages, no outputs, that read constants and one another and nothing else."""
    known = {tensor.name for tensor in program.constant_inputs}
    found: dict[str, Stage] = {}
    for stage in program.stages:
        plain = stage.combiner is None and len(stage.tensors) == 1 and stage.name not in program.outputs
        if plain and {read.tensor for read in stage.reads()} <= known:
            found[stage.name] = stage
            known.add(stage.name)
    return found
