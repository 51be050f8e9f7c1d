"""Common stages: of those that compute the same, up to the names of axes, the first serves all readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...tensor.expr import Expr, Read, Var, rewrite
from ...tensor.program import Fold, Program, Stage


def common_stages(program: Program) -> Program:
    """The program in which every stage but outputs is computed once. What it has no readers for any more is gone."""
    first: dict[object, Stage] = {}
    instead: dict[str, str] = {}  # tensor -> the same one that is computed before
    stages: list[Stage] = []
    for stage in program.stages:
        now = _reading(stage, instead)
        known = first.setdefault(_meaning(now), now)
        if known is now or any(tensor.name in program.outputs for tensor in stage.tensors):
            stages.append(now)
        else:
            instead |= {old.name: new.name for old, new in zip(stage.tensors, known.tensors, strict=True)}
    return program.replacing(tuple(stages)) if instead else program


def _reading(stage: Stage, instead: Mapping[str, str]) -> Stage:
    """The stage reading other tensors."""
    if not any(read.tensor in instead for read in stage.reads()):
        return stage

    def other(node: Expr) -> Expr | None:
        return (
            Read(instead[node.tensor], node.indices, node.dtype)
            if isinstance(node, Read) and node.tensor in instead
            else None
        )

    fold = stage.fold
    if fold is not None:
        fold = replace(fold, locals=tuple((name, rewrite(value, other)) for name, value in fold.locals))
    return replace(stage, bodies=tuple(rewrite(body, other) for body in stage.bodies), fold=fold)


def _meaning(stage: Stage) -> object:
    """Equal for stages that compute the same: axes and own tensors by their numbers."""
    axes = {axis.name: Var(f"#{number}") for number, axis in enumerate(stage.all_axes)}
    own = {tensor.name: f"#{number}" for number, tensor in enumerate(stage.tensors)}

    def plain(node: Expr) -> Expr | None:
        if isinstance(node, Var):
            return axes.get(node.name)
        return (
            Read(own[node.tensor], node.indices, node.dtype) if isinstance(node, Read) and node.tensor in own else None
        )

    return (
        tuple((tensor.dtype, tensor.shape) for tensor in stage.tensors),
        tuple(axis.extent for axis in stage.axes),
        tuple(axis.extent for axis in stage.reduction),
        stage.combiner,
        tuple(rewrite(body, plain) for body in stage.bodies),
        stage.fold and _of_fold(stage.fold, axes, [(name, rewrite(value, plain)) for name, value in stage.fold.locals]),
    )


def _of_fold(fold: Fold, axes: Mapping[str, Var], locals_: list[tuple[str, Expr]]) -> object:
    kept = tuple(tuple(axes[name] for name in names) for names in fold.tensor_axes)
    return kept, fold.initial, tuple(locals_)
