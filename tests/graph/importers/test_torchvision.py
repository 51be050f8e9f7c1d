"""torchvision is imported whether or not its library of operators could be loaded; here a package of that name and shape."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

# As torchvision does: the library declares the operators, and the module after it gives each a shape rule.
_INIT = "from . import extension\nimport torchvision\nfrom torchvision import _meta_registrations\n"
_RULES = """
import torch
import torchvision.extension

torchvision.extension.loaded

@torch.library.register_fake("torchvision::nms")
def nms(boxes):
    return boxes
"""
_LOADED = """
import torch

loaded = torch.library.Library("torchvision", "DEF")
loaded.define("nms(Tensor boxes) -> Tensor")
"""
_CALL = """
from tilesmith.graph.importers.torchvision import torchvision_module

import torch

print(torchvision_module().__name__, torch.ops.torchvision.nms.default._schema)
"""


def imported(folder: Path, extension: str, rules: str = _RULES) -> subprocess.CompletedProcess[str]:
    package = folder / "torchvision"
    package.mkdir()
    for name, text in {"__init__": _INIT, "extension": extension, "_meta_registrations": rules}.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    call = f"import sys\nsys.path.insert(0, {str(folder)!r})\n{_CALL}"
    return subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("extension", "schema"),
    [(_LOADED, "torchvision::nms(Tensor boxes) -> Tensor"), ("loaded = None", "torchvision::nms() -> ()")],
    ids=["its own operators", "none"],
)
def test_operators_that_are_missing_are_declared(tmp_path: Path, extension: str, schema: str) -> None:
    answer = imported(tmp_path, extension)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == f"torchvision {schema}"


def test_another_error_of_the_import_is_raised_as_it_is(tmp_path: Path) -> None:
    answer = imported(tmp_path, _LOADED, _RULES + "\nraise RuntimeError('of another kind')")
    assert answer.returncode != 0
    assert "RuntimeError: of another kind" in answer.stderr
