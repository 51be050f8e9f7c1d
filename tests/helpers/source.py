"""What the tests of layers and packaging read of the source tree."""

import ast
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGE_DIR: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]

Imported = tuple[int, str, tuple[str, ...], int]  # level, module, names and line; a plain import names modules


def modules() -> dict[str, Path]:
    """Import name -> file, of every module that is installed."""
    found: dict[str, Path] = {}
    for package, folder in PACKAGE_DIR.items():
        for path in sorted((ROOT / folder).glob("*.py")):
            found[package if path.stem == "__init__" else f"{package}.{path.stem}"] = path
    return found


def imported(module: str, path: Path, known: set[str], *, lazy: bool = True) -> Iterator[tuple[str, int]]:
    """Modules of ours that `module` imports, with the line. Without `lazy` only those that its own import brings along."""
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    found = names_of(path)
    for level, source, names, line in found.imports if lazy else found.early:
        base = ".".join(package.split(".")[: len(package.split(".")) - level + 1]) if level else ""
        base = ".".join(filter(None, (base, source)))
        for name in names:
            own = f"{base}.{name}" if base else name
            target = own if own in known else base
            if target in known:
                yield target, line


@dataclass(frozen=True, slots=True)
class SourceNames:
    """Holds what tests ask of a file, so that it is parsed once.

    Attributes:
        imports: all of them.
        early: those that run when the file is imported.
        classes: names of all classes, those inside of functions and of other classes among them.
    """

    imports: tuple[Imported, ...]
    early: tuple[Imported, ...]
    classes: tuple[str, ...]


@cache  # several tests walk all of the product
def names_of(path: Path) -> SourceNames:
    """What a file imports, and its classes."""
    return names_in(path.read_text())


def names_in(text: str) -> SourceNames:
    """The same of a text."""
    tree = ast.parse(text)
    statements = list(_statements(tree))
    classes = tuple(node.name for node in statements if isinstance(node, ast.ClassDef))
    return SourceNames(tuple(_named(statements)), tuple(_named(_at_import(tree))), classes)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those inside of expressions, in which nothing is imported and no class defined."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from _statements(node)


def _named(nodes: Iterable[ast.AST]) -> Iterator[Imported]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield 0, "", tuple(alias.name for alias in node.names), node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", tuple(alias.name for alias in node.names), node.lineno


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when the module is imported: not in functions, not under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.expr):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _at_import(node)
