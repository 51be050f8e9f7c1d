"""The public face: light, lazy, and the same to people and to type checkers."""

import ast
import importlib
import json
import subprocess
import sys
import tomllib

import pytest

import tilesmith
from helpers.source import ROOT

HEAVY = ("numpy", "llvmlite", "xgboost", "sklearn", "scipy", "ray", "pydantic", "typer", "rich", "pycuda", "torch")
_PROBE = """
import sys, time
before = time.perf_counter()
import tilesmith
seconds = time.perf_counter() - before
import json
print(json.dumps([seconds, sorted(sys.modules)]))
"""


def test_importing_it_is_fast_and_brings_nothing_heavy() -> None:
    """The best of several fresh processes, so that a busy machine does not count."""
    best = float("inf")
    for _ in range(5):
        output = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=True, text=True).stdout
        seconds, loaded = json.loads(output)
        assert not set(HEAVY) & set(loaded)
        best = min(best, seconds)
        if best < 0.3:
            return
    pytest.fail(f"import tilesmith took {best:.2f} s")


@pytest.mark.parametrize("name", tilesmith.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(tilesmith, name) is not None
    assert name in dir(tilesmith)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tile'"):
        _ = tilesmith.tile  # type: ignore[attr-defined]


def test_type_checkers_see_the_same_names_in_the_same_places() -> None:
    tree = ast.parse((ROOT / "tilesmith" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [(node.module, alias) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    seen = {alias.asname: f"{module}.{alias.name}" for module, alias in imports if alias.name != "*"}
    assert seen == tilesmith._MODULES | {name: f"{home}.{name}" for name, home in tilesmith._HOME.items()}
    assert [module for module, alias in imports if alias.name == "*"] == [tilesmith._FUNCTIONS]


def test_a_star_brings_all_of_it_and_a_wrong_name_nothing() -> None:
    found: dict[str, object] = {}
    exec("from tilesmith import *", found)
    assert set(found) - {"__builtins__"} == set(tilesmith.__all__)
    assert found["tanh"] is tilesmith.tanh


def test_the_two_commands_are_one_program() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert set(scripts) == {"tune", "tilesmith"} and len(set(scripts.values())) == 1
    module, _, function = scripts["tune"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))
