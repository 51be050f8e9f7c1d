"""The name of a class says what it is wherever it is read: no two classes of the product share one."""

from __future__ import annotations

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


def test_two_that_do_would_be_found() -> None:
    first, second = ROOT / "a.py", ROOT / "b.py"
    assert homes_of({first: names_in("class A: ..."), second: names_in("def f():\n    class A: ...")}) == {
        "A": ["a.py", "b.py"]
    }
