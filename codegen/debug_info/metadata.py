"""Debug information as LLVM metadata: files, functions and lines, which LLVM writes as DWARF.

One `DebugText` is of one module, one `FunctionDebug` of one function in it. Other metadata of a module are below `_FIRST`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..ir.loop_ir import Statement
from .places import NestPlaces, SourcePlace

_FIRST = 8
_ROOT = "/"
_VERSION = 4  # of DWARF: what every debugger and profiler reads


class DebugText:
    """Collects the nodes of a module, equal ones once."""

    def __init__(self, places: NestPlaces) -> None:
        """`places`: of the nest that is written."""
        self.places = places
        self._nodes: dict[str, int] = {}
        self._unit = 0

    def node(self, text: str) -> str:
        """The name of a node of this text."""
        return f"!{self._nodes.setdefault(text, _FIRST + len(self._nodes))}"

    def of_function(self, symbol: str) -> FunctionDebug:
        """Returns what a function of the nest has, whose first line is that of the nest."""
        whole = self.places.whole
        return FunctionDebug(self, self._function(symbol, whole), whole)

    def inlined(self, place: SourcePlace) -> str:
        """The function that stands for what is inlined here."""
        return self._function(place.inside, SourcePlace(place.file, place.line))

    def _function(self, name: str, place: SourcePlace) -> str:
        # of another folder than all files, so that tables name these in full
        home = self.node(f"!DIFile(filename: {_quoted(self.places.whole.file)}, directory: {_quoted(_ROOT)})")
        unit = self.node(
            f"distinct !DICompileUnit(language: DW_LANG_C99, file: {home}, "
            'producer: "tilesmith", isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug)'
        )
        self._unit = int(unit[1:])
        kind = self.node(f"!DISubroutineType(types: {self.node('!{null}')})")
        file = self._file(place.file)
        return self.node(
            f"distinct !DISubprogram(name: {_quoted(name)}, scope: {file}, file: {file}, line: {place.line}, type: {kind}, "
            f"scopeLine: {place.line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {unit})"
        )

    def _file(self, path: str) -> str:
        return self.node(f"!DIFile(filename: {_quoted(Path(path).name)}, directory: {_quoted(str(Path(path).parent))})")

    def lines(self) -> list[str]:
        """The metadata as they stand at the end of a module."""
        if not self._nodes:
            return []
        flags = [
            self.node(f'!{{i32 7, !"Dwarf Version", i32 {_VERSION}}}'),
            self.node('!{i32 2, !"Debug Info Version", i32 3}'),
        ]
        return [
            f"!llvm.dbg.cu = !{{!{self._unit}}}",
            f"!llvm.module.flags = !{{{', '.join(flags)}}}",
            *(f"!{number} = {text}" for text, number in self._nodes.items()),
        ]


@dataclass(frozen=True, slots=True)
class FunctionDebug:
    """Writes where the instructions of a function are from; `scope` is its node."""

    module: DebugText
    scope: str
    whole: SourcePlace

    @property
    def attribute(self) -> str:
        """Returns what stands behind the head of its definition."""
        return f" !dbg {self.scope}"

    @property
    def start(self) -> str:
        """Returns what stands behind instructions that are of no statement."""
        return self._location(self.whole.line, self.scope)

    def behind(self, statement: Statement) -> str | None:
        """Returns what stands behind the instructions of a statement; None where it has no place of its own."""
        place = self.module.places.of(statement)
        if place is None:
            return None
        if not place.inside:
            return self._location(place.line, self.scope)
        at = self.module.node(f"distinct !DILocation(line: {self.whole.line}, scope: {self.scope})")
        return self._location(place.line, f"{self.module.inlined(place)}, inlinedAt: {at}")

    def _location(self, line: int, scope: str) -> str:
        return f", !dbg {self.module.node(f'!DILocation(line: {line}, scope: {scope})')}"


def _quoted(text: str) -> str:
    """A string as LLVM writes it."""
    safe = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode())
    return f'"{"".join(safe)}"'
