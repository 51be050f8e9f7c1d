"""The canonical form of a program, and the keys made from it.

Everything is named by position: inputs x0.., tables c0.., stages t0.., axes a0.. (numbered anew in each stage,
spatial ones first), values of folds v0... Inputs keep their order, which is that of the arguments; stages stand in
the order of a depth-first walk from the outputs along the reads as they appear; tables in the order of their first
use. What no output needs is dropped. So neither names nor the order in which a program was written enters a key.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace

from ..accuracy import Accuracy
from ..dtype import i64
from ..expr import Cast, Const, Expr, Local, Op, Read, Var, rewrite
from ..printing import print_program
from ..program import Axis, Fold, Program, Stage, Table, Tensor


def canonical(program: Program) -> Program:
    """The same program with canonical names; origins are kept."""
    stages = _ordered_stages(program)
    names = _tensor_names(program, stages)
    tables = sorted((t for t in program.tables if t.tensor.name in names), key=lambda t: int(names[t.tensor.name][1:]))
    return Program(
        tuple(replace(item, tensor=_renamed(item.tensor, names)) for item in program.inputs),
        tuple(_canonical_stage(stage, names) for stage in stages),
        tuple(names[name] for name in program.outputs),
        tuple(Table(_renamed(table.tensor, names), table.values) for table in tables),
    )


def canonical_names(program: Program) -> dict[str, str]:
    """Canonical tensor name -> the name that the program has for it."""
    return {new: old for old, new in _tensor_names(program, _ordered_stages(program)).items()}


def program_key(program: Program) -> str:
    """The identity of a program: sha256 of its canonical text, 64 hexadecimal digits."""
    return _sha256(print_program(canonical(program)))


def family_key(program: Program) -> str:
    """The identity of a program with its sizes left open: 64 hexadecimal digits.

    Left open are all extents and dimensions, and the literals that follow from them: in index arithmetic the divisors
    of // and %, the limits of < <= > >= (but -1, 0 and 1: a padding's lower edge is no size) and of min; of floats
    those that are the number of points of some reduction, its root, or the reciprocal of one of these. So matmuls of
    all sizes are one family, and convolutions of one stride and padding are. A literal that is taken for a size by
    mistake makes a family larger, never a key wrong.
    """
    form = canonical(program)
    counts = {float(math.prod(axis.extent for axis in stage.reduction)) for stage in form.stages if stage.reduction}
    roots = {math.sqrt(count) for count in counts}
    sizes = counts | roots | {1 / size for size in counts | roots}
    lines = [f"{'constant' if i.constant else 'input'} {i.tensor.dtype} {len(i.tensor.shape)}" for i in form.inputs]
    lines += [f"table {t.tensor.dtype} {len(t.tensor.shape)} {t.values!r}" for t in form.tables]
    for stage in form.stages:
        axes = [len(stage.axes_of(number)) for number in range(len(stage.tensors))]
        lines.append(f"stage {stage.combiner} {axes} {len(stage.reduction)}")
        if stage.fold:
            lines.append(repr(stage.fold.initial))
        lines += [_open_text(expression, sizes) for expression in stage.expressions]
    return _sha256("\n".join([*lines, *form.outputs]))


def task_key(program: str, target: str, threads: int, accuracy: Accuracy = "default", in_model: bool = False) -> str:
    """Returns the key of a task, from the keys of its program and target.

    The default accuracy is not part of it, nor that a kernel stands alone: there was nothing else once.
    """
    more = ("" if accuracy == "default" else f"\n{accuracy}") + ("\nin a model" if in_model else "")
    return _sha256(f"{program}\n{target}\n{threads}{more}")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _ordered_stages(program: Program) -> list[Stage]:
    """Stages that outputs need, each after those it reads."""
    found: dict[int, Stage] = {}
    done: set[int] = set()
    # an explicit stack: a chain of a thousand stages is legal
    pending = [(program.producers[name], False) for name in reversed(program.outputs)]
    while pending:
        stage, ready = pending.pop()
        if id(stage) in done:
            continue
        if ready:
            done.add(id(stage))
            found[id(stage)] = stage
            continue
        pending.append((stage, True))
        readings = [program.producers[r.tensor] for r in stage.reads() if r.tensor in program.producers]
        pending.extend((producer, False) for producer in reversed(readings) if id(producer) not in done)
    return list(found.values())


def _tensor_names(program: Program, stages: list[Stage]) -> dict[str, str]:
    names = {item.tensor.name: f"x{number}" for number, item in enumerate(program.inputs)}
    tables = {table.tensor.name for table in program.tables}
    used = dict.fromkeys(r.tensor for stage in stages for r in stage.reads() if r.tensor in tables)
    names |= {name: f"c{number}" for number, name in enumerate(used)}
    tensors = [tensor for stage in stages for tensor in stage.tensors]
    return names | {tensor.name: f"t{number}" for number, tensor in enumerate(tensors)}


def _renamed(tensor: Tensor, names: dict[str, str]) -> Tensor:
    return Tensor(names[tensor.name], tensor.dtype, tensor.shape)


def _canonical_stage(stage: Stage, names: dict[str, str]) -> Stage:
    axes = {axis.name: f"a{number}" for number, axis in enumerate(stage.all_axes)}
    local_names = {name: f"v{number}" for number, (name, _) in enumerate(stage.fold.locals if stage.fold else ())}

    def name_of(node: Expr) -> Expr | None:
        match node:
            case Var(name=name):
                return Var(axes[name])
            case Read(tensor=tensor, indices=indices, dtype=dtype):
                return Read(names[tensor], indices, dtype)
            case Local(name=name, dtype=dtype):
                return Local(local_names[name], dtype)
        return None

    fold = stage.fold and Fold(
        tuple(tuple(axes[name] for name in kept) for kept in stage.fold.tensor_axes),
        stage.fold.initial,
        tuple((local_names[name], rewrite(value, name_of)) for name, value in stage.fold.locals),
    )
    return Stage(
        tuple(_renamed(tensor, names) for tensor in stage.tensors),
        tuple(Axis(axes[axis.name], axis.extent) for axis in stage.axes),
        tuple(rewrite(body, name_of) for body in stage.bodies),
        tuple(Axis(axes[axis.name], axis.extent) for axis in stage.reduction),
        stage.combiner,
        fold,
        stage.origin,
    )


def _open_text(expr: Expr, sizes: set[float]) -> str:
    """The expression as a text in which literals that stand for sizes are `_`."""
    return " ".join(_open_parts(expr, sizes, False))


def _open_parts(expr: Expr, sizes: set[float], limit: bool) -> Iterator[str]:
    match expr:
        case Const(value=value, dtype=dtype):
            index_size = dtype == i64 and limit and abs(value) > 1
            yield "_" if index_size or (dtype.is_float and value in sizes and value != 1) else f"{dtype} {value!r}"
        case Var(name=name):
            yield name
        case Local(name=name):
            yield name
        case Read(tensor=tensor, indices=indices):
            yield f"{tensor}[{len(indices)}]"
            for index in indices:
                yield from _open_parts(index, sizes, False)
        case Cast(arg=arg, dtype=dtype):
            yield f"{dtype}()"
            yield from _open_parts(arg, sizes, False)
        case Op(name=name, args=args):
            yield f"{name}({len(args)})"
            for arg in args:
                yield from _open_parts(arg, sizes, name in _LIMITED)
        case _:
            raise TypeError(f"unknown expression node {type(expr).__name__}")


_LIMITED = frozenset(("floordiv", "mod", "lt", "le", "gt", "ge", "min"))
