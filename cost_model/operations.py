"""What the scalar expressions of a stage cost: how often each instruction is needed, and of which axes it depends.

An instruction that does not move with an axis is needed once for all its points: common values are computed once in straight
code and moved out of loops by the code generator. So instructions are counted by the set of axes that their value depends on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from ..tensor.dtype import DType, i64
from ..tensor.expr import Cast, Const, Expr, Local, Op, Read, Var, children, reads, rewrite, variables, walk
from ..tensor.language import OPERATORS
from ..tensor.program import Stage
from ..tensor.wholes import WHOLES, whole
from .neighbours import distances, width

Axes = frozenset[str]
# operators that an instruction adds to a sum -> slots that it takes beside the addition, as pairs, which have a hash
Dots = frozenset[tuple[str, float]]
# The axes on which the value of an instruction depends; its distance, that of neighbours.py, 0 for what is not shared; the read
# from which alone it is made, which points that read the same have once; and its type, of which vectors hold more or fewer.
Instruction = tuple[Axes, int, Read | None, DType]
KNOWN_DIVISOR = 5.0  # slots of a quotient by a known number: a product, a shift, and what mirrors numbers below zero


def slots(stage: Stage, fused: bool, written_out: Axes = frozenset(), dots: Dots = frozenset()) -> dict[Axes, float]:
    """Axes -> slots of arithmetic for one point, as `instructions` has them."""
    found: dict[Axes, float] = defaultdict(float)
    for (axes, _, _, dtype), cost in instructions(stage, fused, written_out, dots).items():
        found[axes] += cost * width(stage, dtype)
    return dict(found)


@lru_cache(maxsize=512)
def instructions(
    stage: Stage,
    fused: bool,
    written_out: Axes = frozenset(),
    dots: Dots = frozenset(),
    along: str | None = None,
) -> dict[Instruction, float]:
    """Instructions -> slots of arithmetic for one point, in vectors of their own type. `fused`: a product that is added costs
    nothing by itself. `dots`: operators that an instruction adds to a sum, and what it takes beside.

    `written_out`: axes that the code has no loop for; choices that depend on them alone are made when the code is. `along`:
    the axis of neighbouring points that are written out.
    """
    found: dict[Instruction, float] = defaultdict(float)
    behind = {} if along is None else distances(stage, along)
    seen: dict[Expr, Axes] = {}
    everything = frozenset(axis.name for axis in stage.all_axes)
    beside = dict(dots)
    one_with_sum = beside | ({"mul": 0.0} if fused else {})

    def visit(node: Expr, is_added: bool) -> Axes:
        if node in seen:
            return seen[node]
        match node:
            case Const() | Local():
                axes: Axes = frozenset()
            case Var(name=name):
                axes = frozenset((name,))
            case Read(indices=indices):
                axes = frozenset().union(*(visit_index(index) for index in indices))
            case Op(name="select", args=(condition, value, _)) if is_added and _is_dot(value, beside):
                axes = visit_index(condition) | visit(value, True)  # most tiles lie inside of where all terms count
            case Op() if (known := whole(node)) is not None:
                axes = visit(known[1], False)
                found[axes, behind.get(node, 0), _made_of(known[1]), stage.tensors[0].dtype] += WHOLES[known[0]]
            case Op(name=name, args=args):
                adds = name in ("add", "sub")
                axes = frozenset().union(*(visit(arg, adds) for arg in args))
                chosen = name == "select" and (_known(args[0], written_out) or _is_guarded(args))
                chosen = chosen or (name in ("and", "or", "not") and not any(map(reads, args)))  # of masks
                if node.dtype != i64 and not chosen:
                    cost = one_with_sum[name] if name in one_with_sum and is_added else _cost(name, args)
                    found[axes, behind.get(node, 0), _made_of(node), node.dtype] += cost
            case Cast():
                axes = frozenset().union(*(visit(child, False) for child in children(node)))
                found[axes, behind.get(node, 0), _made_of(node), node.dtype] += 1.0
            case _:
                raise TypeError(f"unknown expression node {type(node).__name__}")
        seen[node] = axes
        return axes

    def visit_index(index: Expr) -> Axes:
        return frozenset().union(*(visit_index(c) for c in children(index))) | (
            frozenset((index.name,)) if isinstance(index, Var) else frozenset()
        )

    for expression in stage.expressions:
        visit(expression, stage.combiner == "sum")
    if stage.combiner is not None:
        found[everything, 0, None, stage.tensors[0].dtype] += 1.0  # the combination itself, for each point and tensor
    return dict(found)


def _made_of(node: Expr) -> Read | None:
    """The read from which alone a value is made, by casts and by numbers that are known; None for any other."""
    while not isinstance(node, Read):
        moving = [child for child in children(node) if not isinstance(child, Const)]
        if len(moving) != 1:
            return None
        (node,) = moving
    return node


def _is_dot(node: Expr, dots: Mapping[str, float]) -> bool:
    """Says whether an instruction adds a value to a sum, or the one that is chosen where a condition holds."""
    return isinstance(node, Op) and (node.name in dots or (node.name == "select" and _is_dot(node.args[1], dots)))


def guarded_reads(stage: Stage) -> dict[Read, tuple[Expr, ...]]:
    """Returns what a stage reads only where a condition holds that is known without reading, with these conditions."""
    found: dict[Read, tuple[Expr, ...]] = {}
    for expression in stage.expressions:
        for node in walk(expression):
            match node:
                case Op(name="select", args=(condition, Read() as read, _) as args) if _is_guarded(args):
                    found[read] = (*found.get(read, ()), condition)
    return found


@lru_cache(maxsize=512)
def unguarded(stage: Stage) -> Stage:
    """A stage as its points compute it of which all that is read is there."""

    def plain(node: Expr) -> Expr | None:
        match node:
            case Op(name="select", args=(_, Read() as read, _) as args) if _is_guarded(args):
                return read
        return None

    return replace(stage, bodies=tuple(rewrite(body, plain) for body in stage.bodies))


def _cost(name: str, args: tuple[Expr, ...]) -> float:
    operator = OPERATORS[name]
    if name in ("floordiv", "mod") and isinstance(args[1], Const) and args[1].value > 0:
        divisor = int(args[1].value)
        return 1.0 if divisor & (divisor - 1) == 0 else KNOWN_DIVISOR
    if not operator.operand_slots:
        return operator.slots
    return operator.slots + operator.operand_slots * sum(not isinstance(arg, Const) for arg in args)


def _is_guarded(args: tuple[Expr, ...]) -> bool:
    """Says whether a select is a load under a mask, which sets the other lanes to 0 by itself."""
    return isinstance(args[1], Read) and isinstance(args[2], Const) and not args[2].value and not reads(args[0])


def _known(condition: Expr, written_out: Axes) -> bool:
    """Says whether a condition depends on nothing but axes that are written out."""
    return variables(condition) <= written_out and not reads(condition)
