"""Docstrings of classes and functions begin with a verb or say what a thing is: none ends a sentence that nobody began."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from helpers.source import ROOT, modules

# Words that go on with something: "Of a table." says nothing to whoever has not read the name, the arguments and the code.
WORDS = """After As At Before Behind Between By For From How If In Inside No Nobody Not Nothing Of On Only So That There Those
To Under Until Up What When Where Whether Which While Whose Why With Without"""
RIDDLES = frozenset(WORDS.split())
FILES = (*modules().values(), *sorted((ROOT / "benchmarks").rglob("*.py")))
MODULES = {str(path.relative_to(ROOT)): path for path in FILES}
# Each function there is an operator of PyTorch or ONNX, and its docstring a cell of a table: what the operator makes.
TABLES = ("graph/importers/aten/", "graph/importers/onnx_operators/")


def documented(text: str) -> Iterator[tuple[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Classes and functions with the first word of what their docstrings say."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            words = (ast.get_docstring(node) or "").split()
            if words:
                yield node, words[0].rstrip(",.;:")


def riddles(name: str, text: str) -> list[str]:
    return [
        f"{name}:{node.lineno} {node.name} begins with {word}"
        for node, word in documented(text)
        if word in RIDDLES and not (name.startswith(TABLES) and getattr(node, "decorator_list", []))
    ]


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in MODULES}))
def test_docstrings_are_sentences(folder: str) -> None:
    files = {name: path for name, path in MODULES.items() if name.startswith(f"{folder}/")}
    assert [found for name, path in files.items() for found in riddles(name, path.read_text())] == []


def test_a_riddle_is_found() -> None:
    text = 'def f():\n    """Of a table."""\nclass A:\n    """Counts tables."""\n    def g(self):\n        """Whether."""\n'
    assert riddles("a.py", text) == ["a.py:1 f begins with Of", "a.py:5 g begins with Whether"]
    table = '@operator("x")\ndef f():\n    """By given moments"""\n'
    assert riddles("graph/importers/aten/a.py", table) == [] != riddles("graph/a.py", table)
