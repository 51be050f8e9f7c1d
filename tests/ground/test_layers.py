"""The walls: a package imports only what stands to its left, no module is part of a cycle, every folder is installed."""

from graphlib import CycleError, TopologicalSorter

import pytest
from ground.source import PACKAGE_DIR, PROJECT, ROOT, imported, modules

LEFT_OF = {
    "common": "",
    "targets": "common",
    "tensor": "common targets",
    "schedules": "common targets tensor",
    "codegen": "common targets tensor schedules",
    "cost_model": "common targets tensor schedules",
    "runtime": "common targets tensor schedules codegen cost_model",
    "measure": "common targets tensor schedules codegen cost_model runtime",
    "tuner": "common targets tensor schedules codegen cost_model runtime measure logs",
    "logs": "",
}
MODULES = modules()


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


def test_every_package_is_listed_and_every_folder_of_the_list_is_one() -> None:
    setuptools = PROJECT["tool"]["setuptools"]
    assert sorted(setuptools["packages"]) == sorted(PACKAGE_DIR)
    tops = {folder.split("/")[0] for folder in PACKAGE_DIR.values()}
    on_disk = {str(path.parent.relative_to(ROOT)) for top in tops for path in (ROOT / top).rglob("*.py")}
    assert on_disk == set(PACKAGE_DIR.values())
    assert all((ROOT / folder / "__init__.py").exists() for folder in PACKAGE_DIR.values())
    assert set(LEFT_OF) | {"tilesmith"} == tops


def test_the_reader_of_imports_sees_all_kinds(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "m.py"
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
