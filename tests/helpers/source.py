"""What the tests of layers and packaging read of the source tree."""

import ast
import tomllib
from collections.abc import Iterable, Iterator
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
    for level, source, names, line in _imports(path)[0 if lazy else 1]:
        base = ".".join(package.split(".")[: len(package.split(".")) - level + 1]) if level else ""
        base = ".".join(filter(None, (base, source)))
        for name in names:
            own = f"{base}.{name}" if base else name
            target = own if own in known else base
            if target in known:
                yield target, line


@cache  # several tests walk all of the product
def _imports(path: Path) -> tuple[list[Imported], list[Imported]]:
    """All imports of a file, and those that run when it is imported."""
    tree = ast.parse(path.read_text())
    return list(_named(ast.walk(tree))), list(_named(_at_import(tree)))


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
