"""clamped_weights: constants that are small bytes say so in the text of the program.

    sum[k](i32(x[i, k]) * i32(w[k, j]))
    ->  w_clamped[k, j] = min(max(w[k, j], -64), 64);  sum[k](i32(x[i, k]) * i32(w_clamped[k, j]))

Where the four weights that meet in a half of two words have no more than 128 together above zero, and below, the program says
that too (tensor/rewrites/word_ranges.py: `held_sums`), so that sums of two words fit in 16 bits:

    w_above[g, h, j] = sum[t: 2, e: 2](max(i32(w[8 g + 4 t + 2 h + e, j]), 0));  w_below the same of -w
    w_clamped[k, j] = select(w_above[k // 8, k % 4 // 2, j] <= 128 and w_below[..] <= 128, min(max(w[k, j], -64), 64), 0)

The values that a constant has are seen here, where kernels know its type alone; what clamps them is a part of the
program, so that its kernels are right for any values (tensor/rewrites/dot_words.py: `small_words`). It costs nothing in a call,
for what depends on constants alone is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...schedules.rules.cpu.dots import LEAST_DEPTH
from ...tensor.dtype import i8, i32
from ...tensor.expr import Cast, Expr, Read, call, const, rewrite
from ...tensor.program import Axis, Program, Stage, Tensor
from ...tensor.stage_edits import factors, free_name, map_stage, shape_of
from ..model import Model
from .numbers import BLOCK, HELD, SMALL_BYTE, Array, largest_together


def clamped_weights(model: Model) -> Model:
    """The model with such constants clamped to their range where sums of products of integers read them."""
    program, made, stages = model.program, dict[tuple[str, int], Stage](), list[Stage]()
    for stage in program.stages:
        now = stage
        for name, depth in _weights(stage, model.constants):
            key = name, depth if _are_held(model.constants[name], depth) else -1
            if key not in made:
                taken = {one.name for one in stages}
                stages += _clamped(program, *key, taken)
                made[key] = stages[-1]
            now = _reading(now, name, made[key].name)
        stages.append(now)
    return replace(model, program=replace(program, stages=tuple(stages))) if made else model


def _weights(stage: Stage, constants: Mapping[str, Array]) -> list[tuple[str, int]]:
    """The constants of a sum of products of integers that are small bytes, and the dimension of their depth; sums that become
    none of words have none."""
    if stage.combiner != "sum" or len(stage.bodies) != 1 or stage.tensors[0].dtype != i32:
        return []
    if all(axis.extent < LEAST_DEPTH for axis in stage.reduction):
        return []
    parts = factors(stage.bodies[0])
    reads = [part.arg for part in parts if isinstance(part, Cast) and isinstance(part.arg, Read)]
    if len(parts) != 2:
        return []
    small = [read for read in reads if read.dtype == i8 and _is_small(constants.get(read.tensor))]
    return [(read.tensor, _depth(stage, read)) for read in small]


def _depth(stage: Stage, read: Read) -> int:
    """The dimension along which the longest axis of a sum walks; -1 where none is one index."""
    longest = max(stage.reduction, key=lambda axis: axis.extent).var
    return read.indices.index(longest) if longest in read.indices else -1


def _is_small(values: Array | None) -> bool:
    return values is not None and values.size > 0 and values.min() >= -SMALL_BYTE and values.max() <= SMALL_BYTE


def _are_held(values: Array, depth: int) -> bool:
    return depth >= 0 and not values.shape[depth] % BLOCK and int(largest_together(values, depth).max()) <= HELD


def _clamped(program: Program, name: str, depth: int, taken: set[str]) -> list[Stage]:
    """The stages that clamp a constant, along whose depth its elements are held together where this is a dimension."""
    axes = tuple(Axis(f"d{d}", size) for d, size in enumerate(program.tensors[name].shape))
    place = tuple(axis.var for axis in axes)
    given = Read(name, place, i8)
    value: Expr = given
    for end, number in (("max", -SMALL_BYTE), ("min", SMALL_BYTE)):
        value = call(end, value, const(number, i8))
    made: list[Stage] = []
    if depth >= 0:
        k = place[depth]
        own = (*place[:depth], k // BLOCK, k % 4 // 2, *place[depth + 1 :])
        held: list[Expr] = []
        for side, turned in (("above", False), ("below", True)):
            made.append(_summed(program, given, axes, depth, turned, free_name(program, f"{name}_{side}", taken)))
            held.append(Read(made[-1].name, own, i32) <= HELD)
        value = call("select", held[0] & held[1], value, const(0, i8))
    tensor = Tensor(free_name(program, f"{name}_clamped", taken), i8, program.tensors[name].shape)
    return [*made, Stage((tensor,), axes, (value,))]


def _summed(program: Program, given: Read, axes: tuple[Axis, ...], depth: int, turned: bool, name: str) -> Stage:
    """Sums of what the elements of each half of two words have on one side of zero."""
    block, half = Axis("g", axes[depth].extent // BLOCK), Axis("h", 2)
    word, element = Axis("t", 2), Axis("e", 2)
    k = block.var * BLOCK + word.var * 4 + half.var * 2 + element.var
    number = replace(given, indices=(*given.indices[:depth], k, *given.indices[depth + 1 :])).cast(i32)
    around = (*axes[:depth], block, half, *axes[depth + 1 :])
    body = call("max", -number if turned else number, const(0, i32))
    return Stage((Tensor(name, i32, shape_of(around)),), around, (body,), (word, element), "sum")


def _reading(stage: Stage, old: str, new: str) -> Stage:
    def moved(node: Expr) -> Expr | None:
        return replace(node, tensor=new) if isinstance(node, Read) and node.tensor == old else None

    return map_stage(stage, lambda body: rewrite(body, moved))
