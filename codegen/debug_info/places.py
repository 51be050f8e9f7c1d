"""Where the code of a nest comes from, statement by statement.

    program    the line of the model's source, or of the `.tensor` text, that the stage was written in: an inlined function
               that is named after its layers, inside of the function of the nest
    outline    the line of the schedule's outline with the loop, or with what the stage does
    loops      the line of the loop IR, as all passes have left it

Texts that are in no file of a person's are written into a folder, where a debugger finds them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from ...common.cached import cached_property
from ...common.settings import CACHE, DEBUG_INFO
from ...schedules.inlining import inline_stages
from ...schedules.loops import LoopTree
from ...schedules.outline import outline
from ...schedules.rewriting import rewritten
from ...schedules.task import normalised
from ...tensor.printing import print_program
from ...tensor.program import Origin, Program
from ..ir.loop_ir import (
    Allocate,
    Block,
    For,
    If,
    Let,
    MatrixClear,
    MatrixMove,
    MatrixMultiply,
    Nest,
    Statement,
    Store,
    Update,
    statements,
)
from ..ir.printing import statement_lines


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A line of a file. `inside`: the name of what stands there, for a line that is inlined into the function of a nest."""

    file: str
    line: int
    inside: str = ""


@dataclass(frozen=True, slots=True)
class NestPlaces:
    """The places of one nest: of its function, and of statements by identity, which is why the nest is kept."""

    nest: Nest
    whole: SourcePlace
    places: Mapping[int, SourcePlace]

    def of(self, statement: Statement) -> SourcePlace | None:
        """The place of a statement that has one of its own."""
        return self.places.get(id(statement))


@dataclass(frozen=True, slots=True)
class _OutlineLines:
    """The lines of an outline: of loops by their names, of what stages do, and of the heads of stages."""

    file: str
    loops: Mapping[str, int]
    stages: Mapping[str, int]
    heads: Mapping[str, int]


@dataclass(frozen=True)
class DebugSource:
    """Says where the code of a candidate comes from. `stage`: one of DEBUG_STAGES."""

    stage: str
    program: Program
    tree: LoopTree
    name: str

    def places_of(self, nest: Nest) -> NestPlaces:
        """The places of a nest of it, after all passes."""
        if self.stage == "loops":
            return self._in_loops(nest)
        return self._in_outline(nest) if self.stage == "outline" else self._in_program(nest)

    def _in_loops(self, nest: Nest) -> NestPlaces:
        text = "\n".join([f"nest {nest.name}:", *statement_lines(nest.body, 1)])
        file = kept_text(f"{self.name}.{nest.name}", text, "loops")
        lines: dict[int, int] = {}
        printed_lines(nest.body, 2, lines)
        places = {one: SourcePlace(file, line) for one, line in lines.items()}
        return NestPlaces(nest, SourcePlace(file, 1), places)

    def _in_outline(self, nest: Nest) -> NestPlaces:
        shown = self._outline
        places = {}
        for one in statements(nest.body):
            line = shown.loops.get(one.label) if isinstance(one, For) else shown.stages.get(_stage_of(one))
            if line is not None:
                places[id(one)] = SourcePlace(shown.file, line)
        return NestPlaces(nest, SourcePlace(shown.file, shown.heads.get(nest.name, 1)), places)

    @cached_property
    def _outline(self) -> _OutlineLines:
        """The lines of the outline of all nests."""
        text = outline(self.tree)
        lines = list(enumerate(text.splitlines(), 1))

        def lines_of(pattern: re.Pattern[str]) -> dict[str, int]:
            return {name: n for n, one in lines if (found := pattern.match(one)) for name in found[1].split(", ")}

        return _OutlineLines(kept_text(self.name, text, "outline"), lines_of(_LOOP), lines_of(_DOES), lines_of(_HEAD))

    def _in_program(self, nest: Nest) -> NestPlaces:
        known = self._stages
        places = {id(one): known[name] for one in statements(nest.body) if (name := _stage_of(one)) in known}
        whole = known.get(nest.name) or self._place(nest.name, Origin())
        return NestPlaces(nest, replace(whole, inside=""), places)

    @cached_property
    def _stages(self) -> dict[str, SourcePlace]:
        """The place of each tensor's stage."""
        made = {tensor.name: stage.origin for stage in self.tree.program.stages for tensor in stage.tensors}
        return {name: self._place(name, origin) for name, origin in made.items()}

    @cached_property
    def _text(self) -> str:
        return print_program(self.program)

    def _place(self, stage: str, origin: Origin) -> SourcePlace:
        """The line of a stage's own origin, or of the first that has one; else that of the program's text."""
        names = dict.fromkeys(one.layer or one.operator for one in origin.all)
        inside = ", ".join(filter(None, names)) or stage
        for one in (origin, *origin.all):
            if one.file and one.line:
                return SourcePlace(str(Path(one.file).absolute()), one.line, inside)
        lines = enumerate(self._text.splitlines(), 1)
        line = next((n for n, one in lines if re.match(rf"{re.escape(stage)}\b", one)), 1)
        return SourcePlace(kept_text(self.name, self._text, "tensor"), line, inside)


_LOOP = re.compile(r"\s*[\w.]+ (\S+): \S+(?:\s+#.*)?$")
_HEAD = re.compile(r"\s*(\w[\w, ]*): ")
_DOES = re.compile(r"\s*(\w[\w, ]*) \S*= f\(")
_OWN = re.compile(r"[tc]\d+")


def _stage_of(node: Statement) -> str:
    """The tensor whose points a statement computes, or for whose sake it is there: names of buffers and loops begin with it."""
    match node:
        case Store(buffer=name) | Update(buffer=name) | For(var=name) | MatrixClear(tiles=name):
            pass
        case MatrixMove(tiles=name) | MatrixMultiply(tiles=name) | Allocate(buffer=name):
            name = getattr(name, "name", name)
        case _:
            return ""
    found = _OWN.match(str(name))
    return found[0] if found else ""


def printed_lines(node: Statement, line: int, lines: dict[int, int]) -> int:
    """Notes on which line ir/printing.py writes each statement, by identity, where the first one stands on `line`. Returns the
    line behind."""
    if isinstance(node, Block):
        for child in node.body:
            line = printed_lines(child, line, lines)
        return line
    lines[id(node)] = line
    match node:
        case For(body=body) | Let(body=body) | Allocate(body=body):
            return printed_lines(body, line + 1, lines)
        case If(then=then, otherwise=otherwise):
            line = printed_lines(then, line + 1, lines)
            return line if otherwise is None else printed_lines(otherwise, line + 1, lines)
        case MatrixMultiply():
            return line + len(statement_lines(node))
    return line + 1


def debug_source(program: Program, tree: LoopTree, name: str) -> DebugSource | None:
    """Returns where code comes from, where the setting asks for that."""
    stage = DEBUG_INFO.value()
    return DebugSource(stage, program, tree, name) if stage else None


def debug_key(program: Program) -> str:
    """Returns what keeps artifacts with debug information apart from those without, and from each other; "" without."""
    stage = DEBUG_INFO.value()
    if not stage:
        return ""
    origins = repr([stage.origin for stage in program.stages]) if stage == "program" else ""
    return f", debug {stage} {sha256(origins.encode()).hexdigest()}"


def forget_origins() -> None:
    """Equal programs of other origins may have been rewritten before: what is kept of these would bring their origins along."""
    if DEBUG_INFO.value():
        for kept in (normalised, inline_stages, rewritten):
            kept.cache_clear()


def kept_text(name: str, text: str, suffix: str) -> str:
    """Writes a text where debuggers find it, once. Returns the path; a folder that cannot be written is no error."""
    digest = sha256(text.encode()).hexdigest()[:12]
    path = (CACHE.value() / "sources" / f"{name}.{digest}.{suffix}").absolute()
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        except OSError:
            pass
    return str(path)
