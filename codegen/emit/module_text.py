"""The text of one LLVM module while it is written."""

from __future__ import annotations

from ..debug_info.metadata import DebugText


class ModuleText:
    """Holds what a module needs beside its functions: declarations, functions of codegen.math.functions, tables."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        self.definitions: dict[str, str] = {}
        self.functions: list[str] = []
        self.globals: dict[str, str] = {}
        self.runtime_symbols: set[str] = set()
        self.symbol = ""  # the exported function
        self.nests: list[str] = []  # the functions it calls
        self.debug: DebugText | None = None

    def intrinsic(self, name: str, result: str, *operands: str) -> str:
        """`call` of a declared function, without its arguments."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(operands)})"
        return f"call {result} @{name}"

    def text(self) -> str:
        """The whole module."""
        parts = [*self.globals.values(), *self.declarations.values(), *self.definitions.values(), *self.functions]
        if self.debug is not None:
            parts += self.debug.lines()
        return "\n".join(parts) + "\n"
