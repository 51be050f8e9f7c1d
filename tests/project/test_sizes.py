"""What one reads at once is small: a file has one idea, a function fits a screen."""

from __future__ import annotations

import ast

from helpers.source import ROOT, modules

LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 60  # without its arguments and its docstring, which are read by themselves


def long_functions(text: str) -> list[tuple[str, int]]:
    """Functions whose statements take too many lines, with how many."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > LINES_OF_A_FUNCTION:
                found.append((node.name, lines))
    return found


def test_files_are_small_and_functions_fit_a_screen() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in modules().values()}
    assert len(texts) > 700
    assert {name: count for name, text in texts.items() if (count := text.count("\n")) > LINES_OF_A_FILE} == {}
    assert {name: found for name, text in texts.items() if (found := long_functions(text))} == {}


def test_files_of_tests_are_small_too() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    assert {name: count for name, text in texts.items() if (count := text.count("\n")) > LINES_OF_A_FILE} == {}


def test_a_long_function_would_be_found() -> None:
    def text(lines: int) -> str:
        return 'def f(\n    a,\n):\n    """Says\n    much."""\n' + "    a += 1\n" * lines

    assert long_functions(text(LINES_OF_A_FUNCTION)) == []
    assert long_functions(text(LINES_OF_A_FUNCTION + 1)) == [("f", LINES_OF_A_FUNCTION + 1)]
