"""Kernels as C libraries give what they give in Python, bit for bit, and refuse what they cannot do by a status."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import ArgumentError, EnvironmentFailure, TargetError
from tilesmith.runtime.export.export import Exported
from tilesmith.runtime.kernel import Kernel
from tilesmith.targets.host import host_kind
from tilesmith.targets.target import check_runs_here, parse_target
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.oracle.random_inputs import random_inputs

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
_PARALLEL = """\
input x: f32[512, 300]
constant w: f32[300, 128]
y[i: 512, j: 128] = sum[k: 300](x[i, k] * w[k, j])
z[i: 512, j: 128] = y[i, j] * sigmoid(y[i, j])
return z
"""
_TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint)
_POOL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _TASK, ctypes.c_void_p, ctypes.c_uint)


def _pointers(arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def _loaded(made: Exported) -> Callable[[str], Any]:
    library = ctypes.CDLL(str(made.shared))

    def function(name: str) -> Any:
        found = getattr(library, f"{made.name}_{name}")
        found.restype = {"workspace_bytes": ctypes.c_size_t, "error": ctypes.c_char_p, "target": ctypes.c_char_p}.get(
            name, ctypes.c_int
        )
        return found

    return function


def _run(made: Exported, kernel: Kernel, inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    function = _loaded(made)
    if made.weights is not None:
        assert function("init")(str(made.weights).encode()) == 0
    outputs = [
        np.full(one.shape, 0xA5, np.uint8).view(DTYPES[one.dtype].numpy)
        if DTYPES[one.dtype].bytes == 1
        else np.full((*one.shape, DTYPES[one.dtype].bytes), 0xA5, np.uint8).view(DTYPES[one.dtype].numpy)[..., 0]
        for one in kernel.artifact.outputs
    ]
    outputs = [np.ascontiguousarray(one) for one in outputs]
    assert function("run")(_pointers(inputs), _pointers(outputs), None) == 0
    return outputs


def _case(program: ts.Program, seed: int = 0) -> tuple[list[Any], list[Any]]:
    drawn = dict(zip((one.tensor.name for one in program.inputs), random_inputs(program, seed), strict=True))
    return [drawn[t.name] for t in program.dynamic_inputs], [drawn[t.name] for t in program.constant_inputs]


@pytest.mark.parametrize(
    ("name", "threads"), [("layer_norm", 1), ("silu", 2), ("transpose", 2), ("divmod", 1), ("conv", 2)]
)
def test_a_library_gives_what_the_kernel_gives(tmp_path: Path, name: str, threads: int) -> None:
    program = {
        "layer_norm": lambda: ts.ops.layer_norm(rows=96, columns=257),
        "silu": lambda: ts.parse(_PARALLEL),
        "transpose": lambda: ts.ops.transpose(rows=300, columns=170, dtype="bf16"),
        "divmod": lambda: ts.parse("input x: i32[70]\nq[i: 70] = x[i] // 7\nr[i: 70] = x[i] % 7\nreturn q, r\n"),
        "conv": lambda: ts.ops.conv2d(n=1, c=16, h=20, w=20, o=16, constants=["W"]),
    }[name]()
    inputs, constants = _case(program)
    kernel = ts.compile(program, threads=threads, constants=constants)
    made = kernel.export(tmp_path / "out", name="made")
    expected = kernel(*inputs)
    for found, wanted in zip(
        _run(made, kernel, inputs), expected if isinstance(expected, tuple) else [expected], strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def _model(rows: int = 256) -> tuple[ts.Program, list[Any], list[Any]]:
    """Several kernels with regions of threads, constants that calls read, and two outputs."""
    program = ts.parse(
        textwrap.dedent(f"""\
        input x: f32[{rows}, 200]
        input n: i32[{rows}]
        constant a: f32[200, 300]
        constant b: f32[300, 200]
        constant words: f32[50, 200]
        y[i: {rows}, j: 300] = sum[k: 200](x[i, k] * a[k, j])
        p[i: {rows}, j: 300] = y[i, j] * sigmoid(y[i, j])
        z[i: {rows}, j: 200] = sum[k: 300](p[i, k] * b[k, j])
        s[i: {rows}, j: 200] = z[i, j] + words[min(max(n[i], 0), 49), j]
        return s, p
    """)
    )
    inputs, constants = _case(program)
    return program, inputs, constants


@pytest.mark.parametrize("inside", [True, False])
def test_a_library_of_several_kernels_runs_them_in_a_team(tmp_path: Path, inside: bool) -> None:
    program, inputs, constants = _model()
    kernel = ts.compile(program, threads=2, constants=constants)
    assert len(kernel.artifact.kernels) > 1
    made = kernel.export(tmp_path, name="several", inside=inside)
    assert (made.weights is None) == inside
    for _ in range(3):
        for found, wanted in zip(_run(made, kernel, inputs), kernel(*inputs), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_threads_are_lent(tmp_path: Path) -> None:
    """In any order, one after the other: no thread of a region waits for another."""
    program, inputs, constants = _model()
    kernel = ts.compile(program, threads=3, constants=constants)
    made = kernel.export(tmp_path, name="lent", openmp=False)
    asked: list[int] = []

    @_POOL
    def backwards(pool: int, task: Any, data: int, threads: int) -> None:
        asked.append(threads)
        for thread in reversed(range(threads)):
            task(data, thread)

    function = _loaded(made)
    expected = kernel(*inputs)
    for lend in (True, False):
        function("lend_threads")(backwards if lend else None, None)
        for found, wanted in zip(_run(made, kernel, inputs), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert set(asked) == {3}
        asked = [3]
    assert b"gomp" not in subprocess.run(["ldd", made.shared], capture_output=True, check=True).stdout


def test_it_says_what_it_cannot_do(tmp_path: Path) -> None:
    program, inputs, constants = _model()
    kernel = ts.compile(program, threads=1, constants=constants)
    made, other = (kernel.export(tmp_path / name, name=name, inside=False) for name in ("one", "other"))
    changed = ts.compile(program, threads=1, constants=[2 * one for one in constants])
    different = changed.export(tmp_path / "changed", name="one", inside=False)
    function, outputs = _loaded(made), [np.empty(o.shape, np.float32) for o in kernel.artifact.outputs]
    run, init = function("run"), function("init")
    given, results = _pointers(inputs), _pointers(outputs)
    said = [function("error")(n) for n in range(7)]
    assert said[run(given, results, None)] == b"the file of weights was not given, or cannot be opened"
    assert said[init(str(tmp_path / "none").encode())] == b"the file of weights was not given, or cannot be opened"
    assert different.weights is not None and other.weights is not None
    assert said[init(str(different.weights).encode())] == b"the file of weights is not that of this export"
    (tmp_path / "short").write_bytes(b"0" * 100)
    assert said[init(str(tmp_path / "short").encode())] == b"the file of weights is not that of this export"
    assert init(str(made.weights).encode()) == init(b"ignored") == 0
    assert said[run((ctypes.c_void_p * 2)(), results, None)] == b"an input or output is a null pointer"
    assert said[run(None, results, None)] == said[run(given, None, None)] == b"an input or output is a null pointer"
    memory = np.empty(function("workspace_bytes")() + 128, np.uint8)
    at = -(-memory.ctypes.data // 64) * 64
    assert said[run(given, results, ctypes.c_void_p(at + 8))] == b"the workspace is not aligned to 64 bytes"
    assert run(given, results, ctypes.c_void_p(at)) == 0
    np.testing.assert_array_equal(outputs[0], kernel(*inputs)[0])
    function("free")()
    assert said[run(given, results, None)] == b"the file of weights was not given, or cannot be opened"


@pytest.mark.skipif(host_kind().name != "x86", reason="targets of x86")
def test_the_best_code_that_the_processor_has_is_taken(tmp_path: Path) -> None:
    program, inputs, constants = _model()
    wanted = ["x86:avx512+amx+avx512fp16", "x86:avx2", "x86:sse2"]
    runs = [one for one in wanted if _runs(one)]
    made = ts.export(program, tmp_path, targets=wanted, name="best", threads=2, constants=constants)
    assert _loaded(made)("target")().decode().startswith(runs[0].partition("+")[0])
    kernel = ts.compile(program, target=runs[0], threads=2, constants=constants)
    for found, expected in zip(_run(made, kernel, inputs), kernel(*inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


def _runs(target: str) -> bool:
    try:
        check_runs_here(parse_target(target))
    except TargetError:
        return False
    return True


def test_constants_are_prepared_where_the_library_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a processor that is not here: the weights are the constants as they were given."""
    program, inputs, constants = _model()
    kernel = ts.compile(program, threads=2, constants=constants)
    expected = kernel(*inputs)

    def absent(target: object) -> None:
        raise TargetError("as if it did not run here")

    with monkeypatch.context() as patched:
        patched.setattr("tilesmith.runtime.devices.choose.check_runs_here", absent)
        for inside in (True, False):
            made = ts.export(
                program,
                tmp_path / str(inside),
                name=f"raw_{inside}".lower(),
                threads=2,
                constants=constants,
                inside=inside,
            )
            for found, wanted in zip(_run(made, kernel, inputs), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_the_header_is_c_and_cxx(tmp_path: Path) -> None:
    made = ts.compile(ts.ops.relu(64), threads=1).export(tmp_path, name="relu")
    for compiler, standard in (("cc", "c99"), ("c++", "c++11")):
        suffix = "c" if compiler == "cc" else "cpp"
        (tmp_path / f"use.{suffix}").write_text(
            f'#include "{made.header.name}"\nint main() {{ return relu_run(0, 0, 0) == relu_OK; }}\n'
        )
        flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic"]
        subprocess.run([compiler, *flags, f"use.{suffix}", "-L.", "-lrelu", "-o", "use"], cwd=tmp_path, check=True)
        assert subprocess.run([tmp_path / "use"], env={"LD_LIBRARY_PATH": str(tmp_path)}, check=False).returncode == 0


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake")
def test_the_example_is_built_and_runs(tmp_path: Path) -> None:
    program, _, constants = _model()
    made = ts.compile(program, threads=2, constants=constants).export(tmp_path, name="example", inside=False)
    for command in (["cmake", "-B", "build", "."], ["cmake", "--build", "build"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    said = subprocess.run(["build/example_example"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert said.startswith("example for ") and said.endswith(" ms\n")
    (made.weights or tmp_path).rename(tmp_path / "elsewhere")
    failed = subprocess.run(["build/example_example"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert failed.returncode == 1 and "weights" in failed.stderr


def test_what_cannot_be_exported_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ts.compile(ts.ops.relu(64), threads=1)
    for name in ("1st", "a b", "two__lines", "ä", "a-b"):
        with pytest.raises(ArgumentError, match="begin of C names"):
            kernel.export(tmp_path, name=name)
    with pytest.raises(ArgumentError, match="take different arrays"):
        kernel.export(tmp_path, ts.compile(ts.ops.relu(65), threads=1), name="two")
    with pytest.raises(ArgumentError, match="same target"):
        kernel.export(tmp_path, kernel, name="two")
    with pytest.raises(ArgumentError, match="one kind of machine"):
        ts.export(ts.ops.relu(64), tmp_path, targets=["x86:sse2", "aarch64:neon"], threads=1)
    with pytest.raises(ArgumentError, match="no target"):
        ts.export(ts.ops.relu(64), tmp_path, targets=[])
    with pytest.raises(TargetError, match="only kernels for processors"):
        ts.export(ts.ops.relu(64), tmp_path, targets="cuda:sm_90a")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(EnvironmentFailure, match="C compiler"):
        kernel.export(tmp_path, name="none")
    assert not list(tmp_path.iterdir())


_MAIN = """
#include "made.h"
#include <stdio.h>
#include <stdlib.h>
static void *filled(const char *path, size_t bytes) {
  void *array = malloc(bytes);
  FILE *file = fopen(path, "rb");
  if (!array || !file || fread(array, 1, bytes, file) != bytes) exit(8);
  fclose(file);
  return array;
}
int main(int argc, char **argv) {
  const void *inputs[] = {filled("i0", MADE_INPUT_0_BYTES), filled("i1", MADE_INPUT_1_BYTES)};
  void *outputs[] = {malloc(MADE_OUTPUT_0_BYTES), malloc(MADE_OUTPUT_1_BYTES)};
  int status = made_init(argc > 1 ? argv[1] : "made.weights");
  if (!status) status = made_run(inputs, outputs, NULL);
  if (status) return fprintf(stderr, "%s", made_error(status)), 1;
  FILE *first = fopen("o0", "wb"), *second = fopen("o1", "wb");
  fwrite(outputs[0], 1, MADE_OUTPUT_0_BYTES, first);
  fwrite(outputs[1], 1, MADE_OUTPUT_1_BYTES, second);
  made_free();
  for (int n = 0; n < 2; n++) free((void *)inputs[n]), free(outputs[n]);
  return fclose(first) | fclose(second);
}
"""
_FOREIGN = {
    "aarch64:neon": ("aarch64-linux-gnu-gcc", ["qemu-aarch64"]),
    "aarch64:sve": ("aarch64-linux-gnu-gcc", ["qemu-aarch64", "-cpu", "max,sve-default-vector-length=16"]),
    "aarch64:sve256": ("aarch64-linux-gnu-gcc", ["qemu-aarch64", "-cpu", "max,sve-default-vector-length=32"]),
    "riscv64:v": ("riscv64-linux-gnu-gcc", ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=128"]),
    "riscv64:v256": ("riscv64-linux-gnu-gcc", ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=256"]),
}


_RUST = """
fn main() -> Result<(), String> {
    made::init(std::env::args().nth(1).as_deref())?;
    let inputs = [std::fs::read("i0").unwrap(), std::fs::read("i1").unwrap()];
    let mut first = vec![0f32; made::OUTPUT_BYTES[0] / 4];
    let mut second = vec![0f32; made::OUTPUT_BYTES[1] / 4];
    assert!(made::run([&inputs[0], &inputs[1][1..]], [made::bytes_mut(&mut first), made::bytes_mut(&mut second)]).is_err());
    made::run([&inputs[0], &inputs[1]], [made::bytes_mut(&mut first), made::bytes_mut(&mut second)])?;
    std::fs::write("o0", made::bytes(&first)).unwrap();
    std::fs::write("o1", made::bytes(&second)).unwrap();
    unsafe { made::free() };
    Ok(())
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")
def test_a_crate_computes_what_the_kernel_does(tmp_path: Path) -> None:
    program, inputs, constants = _model()
    kernel = ts.compile(program, threads=2, constants=constants)
    made = kernel.export(tmp_path, name="made", inside=False)
    for number, array in enumerate(inputs):
        (tmp_path / f"i{number}").write_bytes(array.tobytes())
    (tmp_path / "rust" / "src" / "bin").mkdir()
    (tmp_path / "rust" / "src" / "bin" / "check.rs").write_text(_RUST)
    cargo = ["cargo", "--offline", "run", "--quiet", "--manifest-path", "rust/Cargo.toml", "--bin"]
    subprocess.run([*cargo, "check", "--", str(made.weights)], cwd=tmp_path, check=True)
    for number, wanted in enumerate(kernel(*inputs)):
        np.testing.assert_array_equal(np.fromfile(tmp_path / f"o{number}", np.float32).reshape(wanted.shape), wanted)
    said = subprocess.run([*cargo, "made_example"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout.startswith("made for ") and not said.stderr, said.stderr


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
def test_valgrind_has_no_complaint(tmp_path: Path) -> None:
    """With AVX2, which valgrind knows; OpenMP keeps memory of its threads, so there is one."""
    program, inputs, constants = _model(7)
    made = ts.export(program, tmp_path, targets="x86:avx2", name="made", threads=1, constants=constants, inside=False)
    _built(tmp_path, made, "cc", inputs, "-g")
    command = ["valgrind", "-q", "--leak-check=full", "--error-exitcode=9", "./main"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


def _built(folder: Path, made: Exported, compiler: str, inputs: Sequence[np.ndarray[Any, Any]], *flags: str) -> None:
    """Makes a program that reads the inputs from files, runs the static library, and writes the outputs to files."""
    (folder / "main.c").write_text(_MAIN)
    for number, array in enumerate(inputs):
        (folder / f"i{number}").write_bytes(array.tobytes())
    libraries = ["-L.", f"-l:{made.static.name}", "-lm", "-lpthread", "-o", "main"]
    subprocess.run([compiler, *flags, "main.c", *libraries], cwd=folder, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("target", _FOREIGN)
@pytest.mark.parametrize("threads", [1, 2])
def test_libraries_for_other_machines_are_right_there(tmp_path: Path, target: str, threads: int) -> None:
    compiler, emulator = _FOREIGN[target]
    if shutil.which(compiler) is None or shutil.which(emulator[0]) is None:
        pytest.skip(f"needs {compiler} and {emulator[0]}")
    program, inputs, constants = _model(33)
    made = ts.export(program, tmp_path, targets=target, name="made", threads=threads, constants=constants, inside=False)
    _built(tmp_path, made, compiler, inputs, "-static", "-fopenmp")
    subprocess.run([*emulator, "./main"], cwd=tmp_path, check=True)
    for number, wanted in enumerate(ts.compile(program, threads=1, constants=constants)(*inputs)):
        found = np.fromfile(tmp_path / f"o{number}", np.float32).reshape(wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.slow
def test_code_for_long_registers_asks_how_long_they_are(tmp_path: Path) -> None:
    compiler, (emulator, *_) = _FOREIGN["aarch64:sve256"]
    if shutil.which(compiler) is None or shutil.which(emulator) is None:
        pytest.skip(f"needs {compiler} and {emulator}")
    program, inputs, constants = _model(33)
    made = ts.export(
        program, tmp_path, targets="aarch64:sve256", name="made", threads=1, constants=constants, inside=False
    )
    _built(tmp_path, made, compiler, inputs, "-static")
    ends = {}
    for size in (16, 32, 64):
        command = [emulator, "-cpu", f"max,sve-default-vector-length={size}", "./main"]
        ends[size] = subprocess.run(command, cwd=tmp_path, check=False).returncode
    assert ends[32] == ends[64] == 0 != ends[16]
