"""What the tests of layers and packaging read of the source tree."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGE_DIR: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]


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
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if lazy else _at_import(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            names = [(base, alias.name) for alias in node.names]
        else:
            continue
        for base, name in names:
            target = f"{base}.{name}" if name and f"{base}.{name}" in known else base
            if target in known:
                yield target, node.lineno


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when the module is imported: not in functions, not under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _at_import(node)
