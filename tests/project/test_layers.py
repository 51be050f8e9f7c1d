"""The walls: a package imports only what stands to its left, no parts of a package form a cycle, every folder is installed."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

from helpers.source import PACKAGE_DIR, PROJECT, ROOT, imported, modules

LEFT_OF = {
    "common": "",
    "targets": "common",
    "tensor": "common targets",
    "schedules": "common targets tensor",
    "codegen": "common targets tensor schedules",
    "cost_model": "common targets tensor schedules",
    "runtime": "common targets tensor schedules codegen cost_model",
    "graph": "common targets tensor schedules codegen cost_model runtime",
    "measure": "common targets tensor schedules codegen cost_model runtime",
    "tuner": "common targets tensor schedules codegen cost_model runtime graph measure logs",
    "logs": "",
}
MODULES = modules()
PACKAGES = sorted(name for name, path in MODULES.items() if path.stem == "__init__" and name != "tilesmith")
ROOMY = 25  # files side by side in one folder

# Imports that go up, inside of functions or for type checkers only, each for a reason.
UP = {
    ("targets.target", "targets.host"): "the text `host` is resolved where targets are parsed",
    ("tensor.program", "tensor.check"): "a program is checked when it is made",
    ("tensor.program", "tensor.printing"): "str() of a program is its text",
    ("tensor.program", "tensor.build"): "indexing a tensor gives a checked read",
    ("codegen.lower.matrix", "codegen.lower.nest"): "parts of lowering a stage are given the whole",
    ("codegen.lower.exceptional", "codegen.lower.nest"): "the same",
    ("codegen.lower.blocked_sums", "codegen.lower.nest"): "the same",
    ("codegen.emit.bf16_words", "codegen.emit.values"): "an operator made of others is given all of arithmetic",
    ("codegen.emit.rounding", "codegen.emit.values"): "the same",
    ("codegen.emit.words", "codegen.emit.values"): "the same",
    ("codegen.emit.division", "codegen.emit.values"): "the same",
}


def layer(module: str) -> str:
    """The package that a module belongs to; "" for the public face."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LEFT_OF else ""


@pytest.mark.parametrize("name", LEFT_OF)
def test_a_package_imports_only_from_its_left(name: str) -> None:
    allowed = {name, *LEFT_OF[name].split()}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for module, path in MODULES.items()
        if layer(module) == name
        for target, line in imported(module, path, set(MODULES))
        if layer(target) not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_no_module_is_part_of_a_cycle() -> None:
    """What a module's own import brings along; the public face and lazy imports stand on top of it."""
    graph = {
        module: {target for target, _ in imported(module, path, set(MODULES), lazy=False)} - {module}
        for module, path in MODULES.items()
    }
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@cache
def arrows() -> dict[tuple[str, str], str]:
    """(module, what it imports) -> the place, lazy imports and those of type checkers among them, but for those in `UP`."""
    return {
        (module, target): f"{path.relative_to(ROOT)}:{line}"
        for module, path in MODULES.items()
        for target, line in imported(module, path, set(MODULES))
        if (module.removeprefix("tilesmith."), target.removeprefix("tilesmith.")) not in UP
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_the_parts_of_a_package_form_no_cycle(package: str) -> None:
    """Parts are its files and its sub-packages."""
    depth = package.count(".") + 1
    graph: dict[str, set[str]] = defaultdict(set)
    places: dict[tuple[str, str], str] = {}
    for (module, target), place in arrows().items():
        if module.startswith(f"{package}.") and target.startswith(f"{package}."):
            one, other = module.split(".")[depth], target.split(".")[depth]
            if one != other:
                graph[one].add(other)
                places[one, other] = place
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        ring = error.args[1]
        pytest.fail("\n".join(places.get((b, a), f"{a} -> {b}") for a, b in pairwise(ring)))


def test_every_import_that_goes_up_is_still_there() -> None:
    found = {
        (module.removeprefix("tilesmith."), target.removeprefix("tilesmith."))
        for module, path in MODULES.items()
        for target, _ in imported(module, path, set(MODULES))
    }
    assert set(UP) <= found, set(UP) - found


@pytest.mark.parametrize("package", PACKAGES)
def test_a_folder_is_no_crowd_and_says_what_lives_there(package: str) -> None:
    folder = MODULES[package].parent
    files = [path for path in folder.glob("*.py") if path.stem != "__init__"]
    assert len(files) <= ROOMY, f"{folder.relative_to(ROOT)} holds {len(files)} files"
    says = ast.get_docstring(ast.parse(MODULES[package].read_text())) or ""
    assert re.search(r"\b[Ii]mport", says), f"{folder.relative_to(ROOT)} does not say what it may import"


def test_every_package_is_listed_and_every_folder_of_the_list_is_one() -> None:
    setuptools = PROJECT["tool"]["setuptools"]
    assert sorted(setuptools["packages"]) == sorted(PACKAGE_DIR)
    tops = {folder.split("/")[0] for folder in PACKAGE_DIR.values()}
    on_disk = {str(path.parent.relative_to(ROOT)) for top in tops for path in (ROOT / top).rglob("*.py")}
    assert on_disk == set(PACKAGE_DIR.values())
    assert all((ROOT / folder / "__init__.py").exists() for folder in PACKAGE_DIR.values())
    assert set(LEFT_OF) | {"tilesmith"} == tops


def test_the_reader_of_imports_sees_all_kinds(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nimport tilesmith.b.one\n"
        "from ..b import one\nfrom .here import x\nif TYPE_CHECKING:\n    from ..b import two\n"
        "def f():\n    from ..b.two import y\n"
    )
    known = {"tilesmith.a", "tilesmith.a.m", "tilesmith.a.here", "tilesmith.b", "tilesmith.b.one", "tilesmith.b.two"}
    found = list(imported("tilesmith.a.m", path, known))
    assert sorted(found, key=lambda entry: entry[1]) == [
        ("tilesmith.b.one", 3),
        ("tilesmith.b.one", 4),
        ("tilesmith.a.here", 5),
        ("tilesmith.b.two", 7),
        ("tilesmith.b.two", 9),
    ]
    assert {line for _, line in imported("tilesmith.a.m", path, known, lazy=False)} == {3, 4, 5}
