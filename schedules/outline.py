"""Prints a loop tree so that a person sees the schedule: the loops only, with extent, kind and the step that made each.

t0                                    output
parallel i0: 22 (step 0)
  c0 = copy of x1                     scratch
    for k: 1024
...
"""

from __future__ import annotations

from ..tensor.program import Program
from .extents import Extent
from .hints import Phrase
from .loops import LoopKind, LoopTree, StageLoops


def outline(tree: LoopTree, mark: str = "", note: str = "<-- here", steps: tuple[str, ...] = ()) -> str:
    """The text of a loop tree.

    Args:
        mark: the loop or stage behind whose line `note` is written.
        steps: texts of the steps; with them each loop shows the step that made it, else the step's number.
    """
    lines: list[str] = []
    for stage in tree.stages:
        if stage.at is None:
            _nest(tree, stage, 0, lines, mark, note, steps)
    return "\n".join(lines)


def _nest(
    tree: LoopTree, stage: StageLoops, depth: int, lines: list[str], mark: str, note: str, steps: tuple[str, ...]
) -> None:
    here = f"   {note}" if stage.stage == mark else ""
    lines.append("  " * depth + _headline(tree, stage) + here)
    for loop in stage.loops:
        depth += 1
        here = f"   {note}" if loop.name == mark else ""
        kind = "for" if loop.kind is LoopKind.SERIAL else str(loop.kind)
        if loop.kind in (LoopKind.BLOCK, LoopKind.THREAD):
            kind = f"{kind}.{loop.dimension}"
        made = ""
        if 0 <= loop.step < len(steps):
            made = f"   # {steps[loop.step]}"
        lines.append(f"{'  ' * depth}{kind} {loop.name}: {_number(loop.extent)}{made}{here}")
        for inner in tree.attached.get((stage.stage, loop.name), ()):
            _nest(tree, tree.by_stage[inner], depth + 1, lines, mark, note, steps)
    lines.append("  " * (depth + 1) + _statement(tree, stage))


def _headline(tree: LoopTree, stage: StageLoops) -> str:
    definition = tree.definition(stage.stage)
    names = ", ".join(t.name for t in definition.tensors)
    what = f"copy of {stage.copies}" if stage.copies else (definition.combiner or "pointwise")
    where = f" in {stage.scope}" if stage.scope else ""
    where += f", kept in {stage.stored}" if stage.stored else ""
    where += f", on first use in {stage.first_use}" if stage.first_use else ""
    hints = "".join(f", {_phrase(phrase)}" for hint in stage.hints.said for phrase in hint.phrases)
    return f"{names}: {what}{where}{hints}{f', as {stage.tensorized}' if stage.tensorized else ''}"


def _phrase(phrase: Phrase) -> str:
    return " ".join(part if isinstance(part, str) else _number(part) for part in phrase)


def _statement(tree: LoopTree, stage: StageLoops) -> str:
    definition = tree.definition(stage.stage)
    reads = ", ".join(dict.fromkeys(r.tensor for r in definition.reads()))
    sign = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min="}.get(definition.combiner or "", "=")
    return f"{', '.join(t.name for t in definition.tensors)} {sign} f({reads})"


def _number(extent: Extent) -> str:
    shape = getattr(extent, "shape", None)
    return str(extent) if shape is None or shape == () else f"<{shape[0]} values>"


def shapes(program: Program) -> str:
    """One line that names the stages of a program and their sizes."""
    return "; ".join(
        f"{s.name}[{', '.join(f'{a.name}: {a.extent}' for a in s.axes)}]"
        + (f" {s.combiner}[{', '.join(f'{a.name}: {a.extent}' for a in s.reduction)}]" if s.reduction else "")
        for s in program.stages
    )
