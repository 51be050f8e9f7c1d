"""dot_words: a sum of products of narrow elements becomes one over words, each of which holds some elements of the depth.

    C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))                 A of u8, B of i8
    ->  A_words[i, l] = byte_quad(A[i, 4 l], A[i, 4 l + 1], ..)   B_words[l, j] = byte_quad(B[4 l, j], ..)
        C[i, j] = sum[l](quad_dot(A_words[i, l], B_words[l, j]))

All other dimensions stay where they are, so that a window still slides and a batch is still one; whoever schedules it meets an
ordinary sum of products. Beyond the depth there are zeros. Sums are those of i32, modulo 2^32, whatever their order.

An instruction takes bytes without a sign from one operand, and with a sign from the other. Of two operands that both have one,
one is moved by 128, which adds 128 times the sum of the other one's elements to each result, and is taken back:

    C[i, j] = C_dots[i, j] - 128 * C_sums[j],  C_sums[j] = sum[k](i32(B[k, j]))

The same holds, with the signs turned, of two that both have none. Where no instruction takes bytes, `half_words` makes words of
two halves, which hold bytes of either kind. Where bytes are known to be small, `small_words` leaves them as they are: sums of
two products fit in a half then. A stage that makes an operand says how small, as `W[k, j] = min(max(w[k, j], -64), 64)` does,
so that no kernel can meet other bytes. `bf16_dots` is this of bfloat16, whose sums are of f32: there numbers below the least
normal one count as zero.

Terms of bfloat16 may have a condition that ends the depth early, as a causal mask does. Then the last word has its first
element alone, of both operands, because 0 times an infinity is no zero:

    O[i, d] = sum[j](select(j <= i, f32(P[i, j]) * f32(V[j, d]), 0))
    ->  O[i, d] = sum[l](select(2 l <= i, select(2 l + 1 <= i, bf16_dot(p, v), bf16_dot(p % 2^16, v % 2^16)), 0))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...common.errors import ProgramError
from ..dots import DOTS, Dot
from ..dtype import bf16, f32, i8, i16, i32, i64, u8
from ..expr import Cast, Const, Expr, Op, Read, call, const, rewrite, substitute, variables, walk
from ..indices.affine import simplify
from ..indices.bounds import bound_of, conjuncts
from ..indices.forms import affine
from ..indices.operator_ranges import Interval
from ..program import Axis, Program, Stage, Tensor
from ..stage_edits import (
    factors,
    find_axis,
    find_stage,
    free_axis_name,
    free_name,
    map_stage,
    refuse,
    result_of,
    shape_of,
    with_stages,
)
from .word_ranges import range_of_elements

MOVE = 128  # takes a byte with a sign to one without, and back
FIRST = 1 << 16  # what is left of a word when it is divided by this is the first of two elements


@dataclass(frozen=True, slots=True)
class _Packed:
    """A read, the dimension of the depth in it, and what is added to its elements before they are packed. `narrow`: bytes are
    packed as they are, and become halves where words are read."""

    read: Read
    deep: int
    moved: int = 0
    narrow: bool = False


@dataclass(frozen=True, slots=True)
class _Product:
    """A sum of products: the left and the right operand of a dot, and the condition under which terms count."""

    stage: Stage
    depth: Axis
    dot: Dot
    left: _Packed
    right: _Packed
    guard: Expr | None = None


def dot_words(program: Program, stage: str, depth: str, moved: str = "") -> Program:
    """A sum of products of two reads of integers of 8 or 16 bits, cast to i32, becomes one over words.

    Args:
        stage: a sum whose body is the product of two casts of reads.
        depth: a reduction axis that is one index of each.
        moved: of two reads of bytes that have both a sign, or both none: the tensor that is moved.

    Errors: ProgramError where the stage is no such product.
    """
    found = _product(program, find_stage(program, stage), depth, moved)
    if found.dot.name == "bf16_dot":
        raise refuse(found.stage, "this stage sums products of floats", expected="integers of 8 or 16 bits")
    return _rewritten(program, found)


def half_words(program: Program, stage: str, depth: str, narrow: str = "") -> Program:
    """The same in words of two halves, whatever integers of 8 or 16 bits there are. `narrow`: a tensor of bytes with a sign
    that stay bytes in memory, where words of them are read by few. Errors: as `dot_words`."""
    found = _product(program, find_stage(program, stage), depth, halves=True)
    if found.dot.name == "bf16_dot":
        raise refuse(found.stage, "this stage sums products of floats", expected="integers of 8 or 16 bits")
    if not narrow:
        return _rewritten(program, found)
    sides = [replace(side, narrow=side.read.tensor == narrow) for side in (found.left, found.right)]
    if not any(side.narrow and side.read.dtype == i8 for side in sides):
        raise refuse(found.stage, f"{narrow} is no operand of bytes with a sign", expected="i8")
    return _rewritten(program, replace(found, left=sides[0], right=sides[1]))


def small_words(program: Program, stage: str, depth: str, moved: str = "") -> Program:
    """The same of bytes of which sums of two products fit in 16 bits. Errors: as `dot_words`, and where that is not known."""
    return _rewritten(program, _small_product(program, stage, depth, moved))


def _small_product(program: Program, stage: str, depth: str, moved: str) -> _Product:
    found = _product(program, find_stage(program, stage), depth, moved)
    if found.dot.name != "quad_dot":
        raise refuse(found.stage, "this stage sums no products of bytes", expected="sum(i32(x) * i32(y)) of bytes")
    least, most = _sums_of_two(program, found)
    if least < -(1 << 15) or most >= 1 << 15:
        raise refuse(
            found.stage, f"sums of two products are {least} to {most}, as far as is known", expected="at most 16 bits"
        )
    return replace(found, dot=DOTS["small_quad_dot"])


def bf16_dots(program: Program, stage: str, depth: str) -> Program:
    """The same of two reads of bf16, cast to f32. Errors: as `dot_words`."""
    found = _product(program, find_stage(program, stage), depth)
    if found.dot.name != "bf16_dot":
        raise refuse(found.stage, "this stage sums products of integers", expected="bf16")
    return _rewritten(program, found)


def dot_of_stage(stage: Stage) -> tuple[Dot, tuple[Read, Read], bool] | None:
    """The dot that computes a stage, its two reads in the order in which they stand, and whether one has to be moved.

    None for a stage that is no sum of products of narrow elements, or one whose terms have a condition.
    """
    return None if stage.combiner != "sum" or len(stage.bodies) != 1 else _dot_of(stage.bodies[0])


def guarded_dot_of_stage(stage: Stage) -> tuple[Dot, tuple[Read, Read], bool] | None:
    """The same, of sums whose terms may have a condition that ends the depth early."""
    if stage.combiner != "sum" or len(stage.bodies) != 1:
        return None
    guard, term = guarded(stage.bodies[0])
    found = _dot_of(term)
    return found if guard is None or (found is not None and found[0].name == "bf16_dot") else None


def guarded(body: Expr) -> tuple[Expr | None, Expr]:
    """The condition under which a term counts, and the term."""
    match body:
        case Op(name="select", args=(guard, term, Const(value=0))):
            return guard, term
    return None, body


def _dot_of(term: Expr) -> tuple[Dot, tuple[Read, Read], bool] | None:
    match factors(term):
        case [Cast(arg=Read() as one, dtype=first), Cast(arg=Read() as two, dtype=second)] if first == second:
            kinds = {one.dtype, two.dtype}
        case _:
            return None
    if first == f32 and kinds == {bf16}:
        return DOTS["bf16_dot"], (one, two), False
    if first == i32 and kinds <= {u8, i8}:
        return DOTS["quad_dot"], (one, two), len(kinds) == 1
    if first == i32 and kinds <= {u8, i8, i16}:
        return DOTS["pair_dot"], (one, two), False
    return None


def _product(program: Program, stage: Stage, depth: str, moved: str = "", halves: bool = False) -> _Product:
    found = guarded_dot_of_stage(stage)
    if found is None:
        raise refuse(
            stage, "this stage is no sum of products of narrow elements", expected="sum(i32(x) * i32(y)) of integers of "
            "8 or 16 bits, or sum(f32(x) * f32(y)) of bf16"
        )  # fmt: skip
    dot, reads, alike = found
    if halves and dot.name == "quad_dot":
        dot, alike = DOTS["pair_dot"], False
    axis = find_axis(stage, depth)
    if axis not in stage.reduction:
        raise refuse(stage, f"{depth} is no reduction axis", expected=", ".join(a.name for a in stage.reduction))
    operands = [_Packed(read, _plain(program, stage, read, axis, dot.group)) for read in reads]
    if alike and moved not in {read.tensor for read in reads}:
        raise refuse(stage, "both operands have a sign, or none", expected="`moved`: the one that is moved")
    if alike:
        n = next(n for n, read in enumerate(reads) if read.tensor == moved)
        operands[n] = replace(operands[n], moved=MOVE if reads[n].dtype == i8 else -MOVE)
    if dot.name == "quad_dot" and _is_signed(operands[0]):
        operands.reverse()
    guard, _ = guarded(stage.bodies[0])
    if guard is not None and not _ends(guard, axis):
        raise refuse(
            stage, f"its terms have a condition that does not end {axis.name}", expected="f <= 0 that grows with it"
        )
    left, right = operands
    return _Product(stage, axis, dot, left, right, guard)


def _sums_of_two(program: Program, product: _Product) -> Interval:
    """The least and the greatest sum of two products of packed elements, as far as the stages that make these tell."""
    ranges = [range_of_elements(program, side.read) for side in (product.left, product.right)]
    moved = [product.left.moved, product.right.moved]
    (a, b), (c, d) = ((low + by, high + by) for (low, high), by in zip(ranges, moved, strict=True))
    ends = (a * c, a * d, b * c, b * d, 0)
    return 2 * min(ends), 2 * max(ends)


def _ends(guard: Expr, axis: Axis) -> bool:
    """Says whether a condition that holds at a point of an axis holds at all points before it."""
    bounds = [bound_of(part) for part in conjuncts(guard)]
    return all(bound is not None and bound.coefficients.get(axis.name, 0) >= 0 for bound in bounds)


def _is_signed(operand: _Packed) -> bool:
    """Says whether the packed bytes have a sign."""
    return (operand.read.dtype == i8) != bool(operand.moved)


def _plain(program: Program, stage: Stage, read: Read, axis: Axis, group: int) -> int:
    """The one dimension of a read whose index is the axis, or that and whole words, as in groups of the depth: 64 * g + k."""
    found = [d for d, index in enumerate(read.indices) if axis.name in variables(index)]
    if len(found) == 1:
        rest = affine(read.indices[found[0]]).minus(affine(axis.var))
        if rest == affine(const(0, i64)):
            return found[0]
        sizes = (axis.extent, program.tensors[read.tensor].shape[found[0]], rest.constant, *(c for _, c in rest.terms))
        if axis.name not in rest.coefficients and rest.is_linear and all(size % group == 0 for size in sizes):
            return found[0]
    raise refuse(stage, f"{axis.name} does not walk along {read.tensor}", expected="it as one index, and in no other")


def _rewritten(program: Program, product: _Product) -> Program:
    stage, dot = product.stage, product.dot
    word = Axis(free_axis_name(stage, "word"), -(-product.depth.extent // dot.group))
    made: list[Stage] = []
    reads: list[Expr] = []
    for side, operand in (("left", product.left), ("right", product.right)):
        words = _words(program, product, operand, f"{stage.name}_{side}")
        indices = [
            _word_of(index, product.depth, word, dot) if d == operand.deep else index
            for d, index in enumerate(operand.read.indices)
        ]
        made.append(words)
        word_ = Read(words.name, tuple(indices), words.tensors[0].dtype)
        reads.append(call("signed_halves", word_) if operand.narrow else word_)
    reduction = tuple(word if axis == product.depth else axis for axis in stage.reduction)
    body = call(dot.name, *reads)
    if product.guard is not None:
        first, both = (
            simplify(substitute(product.guard, {product.depth.name: word.var * dot.group + n}))
            for n in range(dot.group)
        )
        alone = call(dot.name, *(read % FIRST for read in reads))
        body = call("select", first, call("select", both, body, alone), const(0, body.dtype))
    summed = replace(stage, bodies=(body,), reduction=reduction)
    for operand, other in ((product.left, product.right), (product.right, product.left)):
        if operand.moved:
            return with_stages(program, {stage.name: (*made, *_taken_back(program, summed, stage, operand, other))})
    return with_stages(program, {stage.name: (*made, summed)})


def _word_of(index: Expr, depth: Axis, word: Axis, dot: Dot) -> Expr:
    """The word in which the first element lies of those that the index walks along."""
    return simplify(substitute(index, {depth.name: word.var * dot.group}) // dot.group)


def _words(program: Program, product: _Product, operand: _Packed, name: str) -> Stage:
    """W[dimensions of the operand, those of the depth divided] = its elements, some of them in each word"""
    dot, depth = product.dot, product.depth
    shape = program.tensors[operand.read.tensor].shape
    extent = shape[operand.deep] if operand.read.indices[operand.deep] != depth.var else depth.extent
    count = -(-extent // dot.group)
    axes = tuple(Axis(f"d{d}", count if d == operand.deep else size) for d, size in enumerate(shape))
    wide = f32 if dot.name == "bf16_dot" else i32

    def element(place: int) -> Expr:
        start = axes[operand.deep].var * dot.group
        deep = start + place if place else start
        indices = tuple(deep if d == operand.deep else axis.var for d, axis in enumerate(axes))
        value: Expr = replace(operand.read, indices=indices).cast(wide)
        if (count - 1) * dot.group + place >= extent:
            value = call("select", deep < extent, value, const(0, wide))
        return value + operand.moved if operand.moved else value  # beyond the depth the other operand is zero

    elements = [element(place) for place in range(dot.group)]
    if operand.narrow:
        elements += [const(0, i32)] * 2
    body = call("byte_quad", *elements).cast(i16) if operand.narrow else call(dot.pack, *elements)
    tensor = Tensor(free_name(program, name), body.dtype, shape_of(axes))
    return Stage((tensor,), axes, (body,), origin=product.stage.origin)


def _taken_back(
    program: Program, summed: Stage, stage: Stage, operand: _Packed, other: _Packed
) -> tuple[Stage, Stage, Stage]:
    """D = the sums of what was moved; S = the sums of the other operand; C = D - moved * S"""
    names = set().union(*(variables(index) for index in other.read.indices))
    axes = tuple(axis for axis in stage.axes if axis.name in names)
    if {axis.name for axis in stage.reduction} - names:
        raise refuse(stage, f"{other.read.tensor} does not move with all reduction axes", expected="no moved operand")
    dots = _named(program, summed, f"{stage.name}_dots")
    sums = _named(program, replace(stage, axes=axes, bodies=(other.read.cast(i32),)), f"{stage.name}_sums", axes)
    total = result_of(dots) - result_of(sums) * operand.moved
    return dots, sums, replace(stage, bodies=(total,), reduction=(), combiner=None)


def _named(program: Program, stage: Stage, name: str, axes: tuple[Axis, ...] | None = None) -> Stage:
    shape = shape_of(stage.axes if axes is None else axes)
    return replace(stage, tensors=(Tensor(free_name(program, name), stage.tensors[0].dtype, shape),))


def is_packed(stage: Stage) -> bool:
    """Says whether a stage makes words of narrow elements."""
    packs = {dot.pack for dot in DOTS.values()}
    bodies = [body.arg if isinstance(body, Cast) and body.dtype == i16 else body for body in stage.bodies]
    return stage.combiner is None and any(isinstance(body, Op) and body.name in packs for body in bodies)


def widens_words(stage: Stage) -> bool:
    """Says whether a stage makes halves of bytes in words that it reads."""
    nodes = (node for body in stage.bodies for node in walk(body))
    return any(isinstance(node, Op) and node.name == "signed_halves" for node in nodes)


def with_word_reads(stage: Stage) -> Stage:
    """The stage with each word of elements that lie side by side as one read of an i32, which is what code makes of it."""
    packs = {dot.pack: dot.group for dot in DOTS.values()}

    def whole(node: Expr) -> Expr | None:
        if not isinstance(node, Op) or node.name not in packs:
            return None
        reads = [arg.arg for arg in node.args if isinstance(arg, Cast) and isinstance(arg.arg, Read)]
        if (
            len(reads) < len(node.args)
            or reads[0].dtype.bits * packs[node.name] != i32.bits
            or not _side_by_side(reads)
        ):
            return None
        return replace(reads[0], dtype=i32)

    return map_stage(stage, lambda body: rewrite(body, whole))


def _side_by_side(reads: Sequence[Read]) -> bool:
    first = reads[0]
    places = [affine(read.indices[-1]).minus(affine(first.indices[-1])) for read in reads]
    return all((read.tensor, read.indices[:-1]) == (first.tensor, first.indices[:-1]) for read in reads) and all(
        place.is_constant and place.constant == n for n, place in enumerate(places)
    )


def can_dot_small(program: Program, stage: str, depth: str, moved: str) -> bool:
    """Says whether bytes are known to be so small that `small_words` applies."""
    try:
        _small_product(program, stage, depth, moved)
    except ProgramError:
        return False
    return True


def can_dot(program: Program, stage: str, depth: str) -> bool:
    """Says whether the words of a stage can be made along an axis."""
    try:
        found = find_stage(program, stage)
        dot = guarded_dot_of_stage(found)
        _product(program, found, depth, dot[1][0].tensor if dot is not None else "")
    except ProgramError:
        return False
    return True
