"""What was saved is read back: kernels and models alike, and whatever was changed, mixed up or lost is one clear error."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import ArgumentError, TargetError
from tilesmith.runtime.export.description import digest_of
from tilesmith.runtime.kernel import Kernel
from tilesmith.targets.host import host_kind
from tilesmith.targets.target import check_runs_here, parse_target

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
_TWO_LAYERS = """\
input x: f32[64, 200]
constant a: f32[200, 300]
constant b: f32[300, 200]
y[i: 64, j: 300] = sum[k: 200](x[i, k] * a[k, j])
p[i: 64, j: 300] = y[i, j] * sigmoid(y[i, j])
z[i: 64, j: 200] = sum[k: 300](p[i, k] * b[k, j])
return z, p
"""


def _kernel() -> tuple[Kernel, np.ndarray[Any, Any]]:
    """A model of several kernels with two outputs, and an input."""
    draw = np.random.default_rng(0)
    program = ts.parse(_TWO_LAYERS)
    constants = {t.name: draw.standard_normal(t.shape).astype("f4") for t in program.constant_inputs}
    kernel = ts.compile(program, threads=2, constants=constants)
    assert len(kernel.artifact.kernels) > 1
    return kernel, draw.standard_normal((64, 200)).astype("f4")


def _same(kernel: Any, wanted: Kernel, x: np.ndarray[Any, Any]) -> None:
    for found, expected in zip(kernel(x), wanted(x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_kernel_is_read_back(tmp_path: Path) -> None:
    kernel, x = _kernel()
    kernel.save(tmp_path / "new" / "folder")
    found = ts.load(tmp_path / "new" / "folder")
    assert isinstance(found, Kernel)
    assert repr(found) == repr(kernel).replace(kernel.artifact.name, found.artifact.name)
    assert found.provenance == str(kernel.provenance) and found.artifact.builder == kernel.artifact.builder
    _same(found, kernel, x)
    _same(pickle.loads(pickle.dumps(found)), kernel, x)
    out = tuple(np.empty(one.shape, np.float32) for one in kernel.artifact.outputs)
    found(x, out=out)
    np.testing.assert_array_equal(out[0], kernel(x)[0])
    assert found.time(x) > 0 and found.time(cold=True) > 0
    with pytest.raises(ArgumentError, match="shape"):
        found(x[:5])
    with pytest.raises(ArgumentError, match="saved already"):
        found.save(tmp_path / "again")


def test_saving_writes_what_loading_needs_and_exports_are_read_too(tmp_path: Path) -> None:
    kernel, x = _kernel()
    kernel.save(tmp_path / "saved")
    kernel.export(tmp_path / "out", name="model", inside=False)  # its description is called as a model's is
    name = kernel.artifact.symbol
    assert {one.name for one in (tmp_path / "saved").iterdir()} == {f"lib{name}.so", f"{name}.json"}
    for path in (tmp_path / "saved" / f"{name}.json", tmp_path / "out", tmp_path / "out" / "model.json"):
        _same(ts.load(path), kernel, x)
    kernel.save(tmp_path / "saved")  # over itself
    _same(ts.load(tmp_path / "saved"), kernel, x)


def test_a_model_beside_a_kernel_and_other_files(tmp_path: Path) -> None:
    program = ts.parse("input x: f32[8]\ny[i: 8] = x[i] + 1\nreturn y\n")
    ts.Model(program, {}, "small").save(tmp_path / "model")
    ts.Model(program, {}, "small").save(tmp_path / "one.safetensors")
    for path in (tmp_path / "model", tmp_path / "one.safetensors"):
        found = ts.load(path)
        assert isinstance(found, ts.Model) and found.program == program
    ts.compile(program, threads=1).save(tmp_path / "kernel")
    (tmp_path / "kernel" / "package.json").write_text('{"name": "of somebody else"}')
    assert isinstance(ts.load(tmp_path / "kernel"), Kernel)


@pytest.mark.parametrize(
    ("lay", "found"),
    [
        (lambda path: None, "no such file or folder"),
        (lambda path: path.mkdir(), "an empty folder"),
        (lambda path: path.write_bytes(b"of another kind"), "a file of another kind"),
        (lambda path: (path.mkdir(), (path / "notes.json").write_text("[1]")), "a folder with notes.json"),
    ],
)
def test_what_is_neither_is_one_error(tmp_path: Path, lay: Callable[[Path], object], found: str) -> None:
    lay(tmp_path / "it")
    with pytest.raises(ArgumentError, match="nothing that was saved") as error:
        ts.load(tmp_path / "it")
    assert error.value.found == found and "Model.save" in error.value.expected


_USE = """
import sys
import tilesmith
kernel = tilesmith.load(sys.argv[1])
import numpy as np
print(kernel(np.arange(-32, 32, dtype=np.float32)).sum(), *sorted(sys.modules))
"""


def test_running_what_was_saved_needs_neither_llvm_nor_what_searches(tmp_path: Path) -> None:
    """Not even of this package: what is imported is what a call needs, and so it starts at once."""
    ts.compile(ts.ops.relu(64), threads=1).save(tmp_path)
    done = subprocess.run([sys.executable, "-c", _USE, tmp_path], check=True, capture_output=True, text=True)
    result, *names = done.stdout.split()
    assert result == "496.0"
    packages = {name.partition(".")[0] for name in names}
    assert not packages & {"llvmlite", "xgboost", "sklearn", "scipy", "pydantic", "rich", "typer", "ray", "statistics"}
    ours = [name for name in names if name.startswith("tilesmith.")]
    assert [name for name in ours if name.startswith("tilesmith.graph")] == ["tilesmith.graph", "tilesmith.graph.saved"]
    assert {name.split(".")[1] for name in ours} == {"codegen", "common", "graph", "runtime", "targets"}
    assert [name for name in ours if name.startswith("tilesmith.targets.")] == ["tilesmith.targets.machine"]
    assert not {
        "tilesmith.runtime.devices.cpu.device",
        "tilesmith.runtime.device_arguments",
        "tilesmith.runtime.export.export",
    } & {*ours}


def _signed(description: Path, **changed: object) -> None:
    """Changes what a description says as somebody would who knows its digest."""
    facts = json.loads(description.read_text()) | changed
    description.write_text(json.dumps(facts | {"hash": digest_of(facts)}))


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()  # this process has mapped the file that was there
    path.write_bytes(content)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    kernel, _ = _kernel()
    kernel.export(tmp_path / "out", name="one", inside=False)
    ts.load(tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("name", ["libone.so", "one.weights"])
def test_a_byte_that_was_changed_is_found(exported: Path, name: str) -> None:
    _flipped(exported / name)
    with pytest.raises(ArgumentError, match=f"{name} is not the file that was saved"):
        ts.load(exported)
    (exported / name).unlink()
    with pytest.raises(ArgumentError, match=f"{name} is not the file that was saved"):
        ts.load(exported)


def test_weights_of_another_export_are_found(exported: Path, tmp_path: Path) -> None:
    kernel, _ = _kernel()
    kernel.export(tmp_path / "other", name="one", inside=False)
    changed = ts.compile(
        ts.parse(_TWO_LAYERS), threads=2, constants=[np.ones(s, "f4") for s in ((200, 300), (300, 200))]
    )
    changed.export(tmp_path / "other", name="one", inside=False)
    shutil.move(tmp_path / "other" / "one.weights", exported / "one.weights")
    with pytest.raises(ArgumentError, match=r"one\.weights is not the file that was saved"):
        ts.load(exported)


def test_a_description_that_was_changed_is_found(exported: Path) -> None:
    """Code that is given other sizes would read behind its arrays."""
    description = exported / "one.json"
    text = description.read_text()
    description.write_text(text.replace("200", "204"))
    with pytest.raises(ArgumentError, match=r"one\.json is not the file that was saved"):
        ts.load(exported)
    description.write_text(text.replace('"threads": 2', '"threads": 3'))
    with pytest.raises(ArgumentError, match=r"one\.json is not the file that was saved"):
        ts.load(exported)


@pytest.mark.parametrize("version", [1, 3, None, "2"])
def test_another_version_is_told(exported: Path, version: object) -> None:
    _signed(exported / "one.json", version=version)
    with pytest.raises(ArgumentError, match="another version of Tilesmith") as error:
        ts.load(exported)
    assert str(version) in error.value.found and "save it again" in error.value.advice


@pytest.mark.skipif(host_kind().name != "x86", reason="a target of another kind than aarch64")
def test_a_kernel_of_another_kind_of_machine_is_told(exported: Path) -> None:
    _signed(exported / "one.json", targets=["aarch64:sve", "aarch64:neon"])
    with pytest.raises(TargetError, match="no code for this processor") as error:
        ts.load(exported)
    assert error.value.expected == "aarch64:sve or aarch64:neon" and error.value.found == "x86_64"


@pytest.mark.skipif(host_kind().name != "x86", reason="targets of x86")
def test_a_kernel_for_another_processor_is_told(tmp_path: Path) -> None:
    target = "x86:avx512+avx512fp16"
    try:
        check_runs_here(parse_target(target))
    except TargetError:
        ts.export(ts.ops.relu(64), tmp_path, targets=target, threads=1)
        with pytest.raises(TargetError, match="no code for this processor") as error:
            ts.load(tmp_path)
        assert error.value.expected == target and "which lacks" in error.value.found
    else:
        pytest.skip("this processor has everything")


def test_what_a_description_cannot_say_is_told(exported: Path) -> None:
    description = exported / "one.json"
    text = description.read_text()
    for wrong in (
        {"library": "../one"}, {"inputs": [["x", "f33", [4]]]}, {"inputs": [["x", "f32", [-4]]]}, {"targets": []},
        {"library": "two"}, {"files": {}}, {"files": 3}, {"threads": "many"}, {"files": {"../../x": "0"}},
    ):  # fmt: skip
        description.write_text(text)
        _signed(description, **wrong)
        with pytest.raises(ArgumentError, match=r"does not describe a library|is not the file that was saved"):
            ts.load(exported)
    description.write_text("{")
    with pytest.raises(ArgumentError, match="nothing that was saved"):
        ts.load(exported)
    with pytest.raises(ArgumentError, match="no folder of one library"):
        Kernel.load(exported)


def test_a_folder_of_two_kernels_wants_a_name(exported: Path) -> None:
    ts.compile(ts.ops.relu(64), threads=1).export(exported, name="two")
    with pytest.raises(ArgumentError, match="no folder of one library") as error:
        ts.load(exported)
    assert error.value.found == "one.json, two.json"
    assert isinstance(ts.load(exported / "two.json"), Kernel)


def test_a_kernel_of_a_gpu_is_not_saved(tmp_path: Path) -> None:
    kernel = ts.compile(ts.ops.relu(64), target="cuda:sm_90a")
    with pytest.raises(TargetError, match="only kernels for processors"):
        kernel.save(tmp_path / "out")
    assert not (tmp_path / "out").exists()
