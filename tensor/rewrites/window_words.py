"""window_words: a sum of products of integers over a small window becomes one over words of neighbouring points.

    y[p, o] = sum[c, r](i32(x[c, p + r]) * i32(w[o, c, r]))
    ->  y_data[c, q] = half_pair(x[c, q], x[c, q + 1])        y_window[o, c, l] = half_pair(w[o, c, 2 l], w[o, c, 2 l + 1])
        y[p, o] = sum[c, l](pair_dot(y_data[c, p + 2 l], y_window[o, c, l]))

Three colours of an image are no depth to make words along (dot_words.py), but a window is. Words overlap: each point begins
one. So what reads them slides as before, with two points of the window at a time. Beyond the data and beyond the window there
are zeros. Sums are those of i32, modulo 2^32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...common.errors import ProgramError
from ..dots import DOTS
from ..dtype import i8, i16, i32, u8
from ..expr import Cast, Expr, Read, call, const, substitute, variables
from ..indices.affine import simplify
from ..indices.forms import affine
from ..program import Axis, Program, Stage, Tensor
from ..stage_edits import factors, find_axis, find_stage, free_axis_name, free_name, refuse, shape_of, with_stages

PAIR = DOTS["pair_dot"]


@dataclass(frozen=True, slots=True)
class _WindowSum:
    """A sum over a window: the axis of which two points make a word, the data, which slide along it, and the coefficients,
    with the dimension of the axis in each and how far apart neighbouring points of the window lie in the data."""

    stage: Stage
    axis: Axis
    data: Read
    moved: int
    step: int
    window: Read
    deep: int


def window_words(program: Program, stage: str, depth: str) -> Program:
    """A sum of products of two reads of integers of 8 or 16 bits, of which one slides, becomes one over words of two points.

    `depth`: the axis of the window along which words are made. Errors: ProgramError where the stage is no such sum.
    """
    found = _window(find_stage(program, stage), depth)
    old, axis = found.stage, found.axis
    pair = Axis(free_axis_name(old, "pair"), -(-axis.extent // PAIR.group))
    data = _words(program, found, found.data, found.moved, f"{old.name}_data")
    window = _words(program, found, found.window, found.deep, f"{old.name}_window")
    reads = (
        _at(
            found.data, data, found.moved, _replaced(found.data.indices[found.moved], axis.name, pair.var * PAIR.group)
        ),
        _at(found.window, window, found.deep, pair.var),
    )
    reduction = tuple(pair if one == axis else one for one in old.reduction)
    summed = replace(old, bodies=(call(PAIR.name, *reads),), reduction=reduction)
    return with_stages(program, {old.name: (data, window, summed)})


def can_window_words(program: Program, stage: str, depth: str) -> bool:
    """Says whether `window_words` applies."""
    try:
        _window(find_stage(program, stage), depth)
    except ProgramError:
        return False
    return True


def _window(stage: Stage, depth: str) -> _WindowSum:
    axis = find_axis(stage, depth)
    reads = _factors(stage)
    if reads is None or axis not in stage.reduction or axis.extent < PAIR.group:
        raise refuse(
            stage, f"this stage is no sum of products of integers along {depth}", expected="sum(i32(x) * i32(w))"
        )
    for data, window in (reads, reads[::-1]):
        moved = [d for d, index in enumerate(data.indices) if axis.name in variables(index)]
        deep = [d for d, index in enumerate(window.indices) if axis.name in variables(index)]
        if len(moved) != 1 or len(deep) != 1 or window.indices[deep[0]] != axis.var:
            continue
        form = affine(data.indices[moved[0]])
        step = form.coefficients.get(axis.name, 0)
        if step > 0 and form.is_linear and len(form.terms) > 1:
            return _WindowSum(stage, axis, data, moved[0], step, window, deep[0])
    raise refuse(stage, f"nothing slides along {depth}", expected="an index x[p + r] and one w[r]")


def _factors(stage: Stage) -> tuple[Read, Read] | None:
    """Both reads of a sum of products of narrow integers."""
    if stage.combiner != "sum" or len(stage.bodies) != 1:
        return None
    match factors(stage.bodies[0]):
        case [Cast(arg=Read() as one, dtype=first), Cast(arg=Read() as two, dtype=second)]:
            narrow = {one.dtype, two.dtype} <= {u8, i8, i16}
            return (one, two) if narrow and first == second == i32 else None
    return None


def _words(program: Program, found: _WindowSum, read: Read, deep: int, name: str) -> Stage:
    """Words of the data, one from each point, or of the window, one from every second point."""
    shape = program.tensors[read.tensor].shape
    slides = read == found.data
    count = shape[deep] if slides else -(-shape[deep] // PAIR.group)
    axes = tuple(Axis(f"d{d}", count if d == deep else size) for d, size in enumerate(shape))
    first: Expr = axes[deep].var if slides else axes[deep].var * PAIR.group
    second = first + (found.step if slides else 1)

    def at(place: Expr) -> Expr:
        return replace(read, indices=tuple(place if d == deep else a.var for d, a in enumerate(axes))).cast(i32)

    other = at(second)
    if slides or shape[deep] % PAIR.group:
        other = call("select", second < shape[deep], other, const(0, i32))
    tensor = Tensor(free_name(program, name), i32, shape_of(axes))
    return Stage((tensor,), axes, (call(PAIR.pack, at(first), other),), origin=found.stage.origin)


def _at(read: Read, words: Stage, deep: int, place: Expr) -> Read:
    indices = tuple(place if d == deep else index for d, index in enumerate(read.indices))
    return Read(words.name, indices, i32)


def _replaced(index: Expr, axis: str, by: Expr) -> Expr:
    return simplify(substitute(index, {axis: by}))
