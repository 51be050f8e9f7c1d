"""pad_reads: what a stage reads of a tensor under guards becomes a tensor with the border in it.

    y[o, p, q] = sum[c, r, s](select(p + r >= 1 and ..., x[c, p + r - 1, q + s - 1], 0) * w[o, c, r, s])
    ->  x_padded[c, h, w] = select(h >= 1 and ..., x[c, h - 1, w - 1], 0)
        y[o, p, q] = sum[c, r, s](x_padded[c, p + r, q + s] * w[o, c, r, s])

The border is written once, so that no inner loop asks where it is. Attached at a tile by a schedule, only that tile's part of
it exists.
"""

from __future__ import annotations

from dataclasses import replace

from ..expr import Const, Expr, Op, Read, binary, rewrite, variables, walk
from ..indices.affine import interval, simplify
from ..indices.forms import affine, to_expr
from ..program import Axis, Program, Stage, Tensor
from ..stage_edits import find_stage, free_name, map_stage, refuse, shape_of, with_stages


def guarded_reads(stage: Stage, tensor: str) -> list[Op]:
    """The distinct selects of a stage whose first arm is a read of a tensor and whose second is a constant."""
    found = [
        node
        for expression in stage.expressions
        for node in walk(expression)
        if isinstance(node, Op)
        and node.name == "select"
        and isinstance(node.args[1], Read)
        and node.args[1].tensor == tensor
        and isinstance(node.args[2], Const)
    ]
    return list(dict.fromkeys(found))


def pad_reads(program: Program, stage: str, tensor: str) -> Program:
    """The guarded read of `tensor` in a stage becomes a read of the new stage TENSOR_padded.

    Its axes are the dimensions of the tensor, as far as the stage reads along them; the guard may only ask where an index
    of the read lies. Errors: ProgramError where there is no such read, more than one, or a guard that asks for more.
    """
    old = find_stage(program, stage)
    found = guarded_reads(old, tensor)
    count = sum(read.tensor == tensor for read in old.reads())
    if len(found) != 1 or count != 1:
        raise refuse(
            old, f"{tensor!r} is not read under one guard", expected="one select(guard, read, constant), and no other read",
            found=f"{count} reads, {len(found)} of them guarded",
        )  # fmt: skip
    guard, read, otherwise = found[0].args
    assert isinstance(read, Read)
    bounds = {axis.name: (0, axis.extent - 1) for axis in old.all_axes}
    spans = [interval(index, bounds) for index in read.indices]
    axes = tuple(Axis(f"d{n}", high - low + 1) for n, (low, high) in enumerate(spans))
    places = [simplify(a.var + low) for a, (low, _) in zip(axes, spans, strict=True)]
    moved = _moved(old, guard, read, places)
    padded = Tensor(free_name(program, f"{tensor}_padded"), read.dtype, shape_of(axes))
    body = Op("select", (moved, Read(tensor, tuple(places), read.dtype), otherwise), read.dtype)
    inner = Read(
        padded.name,
        tuple(simplify(index - low) for index, (low, _) in zip(read.indices, spans, strict=True)),
        read.dtype,
    )
    changed = map_stage(old, lambda e: rewrite(e, lambda node: inner if node == found[0] else None))
    return with_stages(program, {old.name: (Stage((padded,), axes, (body,), origin=old.origin), changed)})


def _moved(stage: Stage, guard: Expr, read: Read, places: list[Expr]) -> Expr:
    """The guard, as a question about the places of the new stage."""
    if isinstance(guard, Op) and guard.name in ("and", "or", "not"):
        return replace(guard, args=tuple(_moved(stage, part, read, places) for part in guard.args))
    if isinstance(guard, Op) and guard.name in ("lt", "le", "gt", "ge", "eq", "ne"):
        left, right = guard.args
        if not any(isinstance(node, Read) for node in walk(guard)):
            difference = affine(binary("sub", left, right))
            for index, place in zip(read.indices, places, strict=True):
                for sign in (1, -1):
                    rest = difference.plus(affine(index), -sign)
                    if variables(index) and not rest.terms:
                        asked = affine(place).times(sign).plus(rest)
                        return replace(guard, args=(to_expr(asked), Const(0, left.dtype)))
    raise refuse(
        stage, f"the guard of {read.tensor!r} asks for more than where it is read",
        expected="comparisons of its indices with numbers", advice="leave the guard where it is",
    )  # fmt: skip


def can_pad_reads(program: Program, stage: Stage, tensor: str) -> bool:
    """True where `pad_reads` applies."""
    from ...common.errors import ProgramError

    try:
        pad_reads(program, stage.name, tensor)
    except ProgramError:
        return False
    return True
