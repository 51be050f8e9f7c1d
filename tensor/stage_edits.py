"""Small operations on stages and programs that rewrites are made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from ..common.errors import ProgramError
from .expr import Const, Expr, Op, Read, rewrite, substitute
from .indices.affine import simplify
from .printing import print_stage
from .program import Axis, Program, Stage

ExprMap = Callable[[Expr], Expr]


def refuse(stage: Stage, problem: str, *, expected: str = "", found: str = "", advice: str = "") -> ProgramError:
    """The error that a rewrite does not apply to a stage, with the stage shown."""
    return ProgramError(
        problem, expected=expected, found=found, advice=advice, where=f"{print_stage(stage)}    <-- here"
    )


def find_stage(program: Program, name: str) -> Stage:
    """The stage that defines a tensor. Errors: ProgramError naming what there is."""
    if name not in program.producers:
        raise ProgramError(f"no stage defines {name!r}", expected="one of " + ", ".join(program.producers))
    return program.producers[name]


def find_axis(stage: Stage, name: str) -> Axis:
    """An axis of a stage. Errors: ProgramError naming what there is."""
    for axis in stage.all_axes:
        if axis.name == name:
            return axis
    raise refuse(stage, f"no axis is called {name!r}", expected="one of " + ", ".join(a.name for a in stage.all_axes))


def map_stage(stage: Stage, change: ExprMap) -> Stage:
    """The stage with every expression changed."""
    fold = stage.fold and replace(stage.fold, locals=tuple((name, change(value)) for name, value in stage.fold.locals))
    return replace(stage, bodies=tuple(map(change, stage.bodies)), fold=fold)


def simplified(stage: Stage) -> Stage:
    """The stage with every expression simplified within the bounds of its axes."""
    bounds = axis_ranges(stage)
    return map_stage(stage, lambda expr: simplify(expr, bounds))


def reduced_over(stage: Stage, axes: Iterable[Axis], values: dict[str, Expr]) -> Stage:
    """The stage with values in place of axes of its reduction, which runs over `axes` then. One term is a result by itself."""
    kept = tuple(axes)
    placed = map_stage(stage, lambda body: substitute(body, values))
    return simplified(replace(placed, reduction=kept, combiner=stage.combiner if kept else None))


def axis_ranges(stage: Stage) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of each axis."""
    return {axis.name: (0, axis.extent - 1) for axis in stage.all_axes}


def map_reads(expr: Expr, change: Callable[[Read], Expr]) -> Expr:
    """The expression with every read changed, inner ones first."""
    return rewrite(expr, lambda node: change(node) if isinstance(node, Read) else None)


def free_name(program: Program, base: str, taken: Collection[str] = ()) -> str:
    """`base`, or with the least number that makes it new among the tensors and the names that are `taken`."""
    number, name = 0, base
    while name in program.tensors or name in taken:
        number += 1
        name = f"{base}{number}"
    return name


def free_axis_name(stage: Stage, base: str) -> str:
    """`base`, or with underscores until it is new among the axes of the stage."""
    while base in (axis.name for axis in stage.all_axes):
        base += "_"
    return base


def shape_of(axes: Iterable[Axis]) -> tuple[int, ...]:
    """The extents of axes."""
    return tuple(axis.extent for axis in axes)


def result_of(stage: Stage) -> Read:
    """Reads what a stage of one tensor gives at its own point."""
    return Read(stage.name, tuple(axis.var for axis in stage.axes), stage.tensors[0].dtype)


def with_stages(program: Program, replaced: dict[str, tuple[Stage, ...]]) -> Program:
    """The program with stages (known by name) replaced by others, in their place."""
    return program.replacing(tuple(new for s in program.stages for new in replaced.get(s.name, (s,))))


def needed_stages(program: Program) -> Program:
    """The program without stages on which no output depends."""
    wanted: set[str] = set()
    pending = list(program.outputs)
    while pending:
        stage = program.producers.get(pending.pop())
        if stage is not None and stage.name not in wanted:
            wanted.add(stage.name)
            pending.extend(read.tensor for read in stage.reads())
    if len(wanted) == len(program.stages):
        return program
    return program.replacing(tuple(stage for stage in program.stages if stage.name in wanted))


def identity_of(combiner: str | None, like: Expr) -> Const:
    """Returns what a reduction ignores: 0, 1, and for max and min the least and the greatest value; 0 where nothing is
    reduced."""
    dtype = like.dtype
    if dtype.name == "bool":
        return Const(combiner in ("prod", "min"), dtype)
    if combiner in ("max", "min"):
        if dtype.is_float:
            return Const(float("-inf") if combiner == "max" else float("inf"), dtype)
        signed = dtype.kind.value == "signed"
        least = -(2 ** (dtype.bits - 1)) if signed else 0
        return Const(least if combiner == "max" else least + 2**dtype.bits - 1, dtype)
    value = 1 if combiner == "prod" else 0
    return Const(float(value) if dtype.is_float else value, dtype)


def operands(expr: Expr, name: str) -> list[Expr]:
    """The operands of an operator that is nested in itself, in order: of max(max(a, b), c) these three. Of any other expression
    itself."""
    found: list[Expr] = []
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Op) and node.name == name:
            waiting += reversed(node.args)
        else:
            found.append(node)
    return found


def factors(expr: Expr) -> list[Expr]:
    """The factors of a product, in order."""
    return operands(expr, "mul")


def product(parts: Iterable[Expr]) -> Expr:
    """The product of factors, from left to right."""
    total: Expr | None = None
    for part in parts:
        total = part if total is None else Op("mul", (total, part), part.dtype)
    assert total is not None
    return total
