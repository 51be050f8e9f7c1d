"""The name of a class says what it is wherever it is read: no two classes of the product share one."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from helpers.source import ROOT, SourceNames, modules, names_in, names_of


def homes_of(files: dict[Path, SourceNames]) -> dict[str, list[str]]:
    """Class name -> where it is defined, for those that are defined more than once."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path, names in files.items():
        for name in names.classes:
            homes[name].append(str(path.relative_to(ROOT)))
    return {name: places for name, places in homes.items() if len(places) > 1}


def test_no_two_classes_share_a_name() -> None:
    assert homes_of({path: names_of(path) for path in modules().values()}) == {}


def aliases(text: str) -> set[str]:
    """Names that stand for types at the top of a file: `Rows = NDArray[np.intp]`."""
    if not re.search("^[A-Z][A-Za-z]* *=", text, re.MULTILINE):  # as in most files
        return set()
    made = [node.targets[0] for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    return {
        node.id for node in made if isinstance(node, ast.Name) and re.fullmatch("[A-Z][a-z]+([A-Z][a-z]+)*", node.id)
    }


# Names of types that are also those of a class, each with what keeps it.
BOTH = {
    "Index": "arguments of operators are annotated by it, an index in code is an object",
    "Value": "a number of the cost model, and a value of LLVM: no file sees both",
}


def test_no_name_of_a_type_is_that_of_a_class() -> None:
    paths = modules().values()
    known = {name for path in paths for name in names_of(path).classes}
    assert known & {name for path in paths for name in aliases(path.read_text())} == set(BOTH)


def test_two_that_do_would_be_found() -> None:
    first, second = ROOT / "a.py", ROOT / "b.py"
    assert homes_of({first: names_in("class A: ..."), second: names_in("def f():\n    class A: ...")}) == {
        "A": ["a.py", "b.py"]
    }
