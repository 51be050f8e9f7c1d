"""Kernels in other processes, and copies of them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.codegen.pipeline import build
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.targets.target import parse_target

LAYER = ts.parse("""
    input A: f32[48, 32]
    constant B: f32[32, 64]
    C[i: 48, j: 64] = sum[k: 32](A[i, k] * B[k, j])
    return C
""")
A = np.random.default_rng(0).random((48, 32), np.float32)
B = np.random.default_rng(1).random((32, 64), np.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_in_another_process(threads: int, tmp_path: Path) -> None:
    """With its constants as they were when it was compiled, its provenance and its texts."""
    weights = B.copy()
    kernel = ts.compile(LAYER, constants={"B": weights}, threads=threads)
    weights[:] = 0
    (tmp_path / "kernel").write_bytes(pickle.dumps(kernel))
    np.savez(tmp_path / "arrays.npz", a=A, c=A @ B)
    script = (
        "import pickle, sys, numpy as np; kernel = pickle.load(open(sys.argv[1], 'rb'));"
        "arrays = np.load(sys.argv[2]); assert np.allclose(kernel(arrays['a']), arrays['c'], atol=1e-4);"
        "assert 'C.i' in kernel.text('outline') and 'constant B' in kernel.text('program'); print(kernel.provenance)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "kernel"), str(tmp_path / "arrays.npz")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == str(kernel.provenance)


def test_a_kernel_of_an_emulated_gpu() -> None:
    program = ts.parse("input a: f32[8]\nconstant w: f32[8]\nt[i: 8] = a[i] * w[i]\nreturn t")
    kernel = Kernel(build(program, UNSCHEDULED, {}, parse_target("cuda:emulator"), 1), [np.full(8, 3, np.float32)])
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(kernel))))
    assert (again(np.ones(8, np.float32)) == 3).all()


def test_a_kernel_of_a_gpu_that_is_not_here() -> None:
    program = ts.parse("input a: f32[8]\nt[i: 8] = a[i] + 1\nreturn t")
    kernel = ts.compile(program, target="cuda:sm_90a")
    assert pickle.loads(pickle.dumps(kernel)).text("ptx") == kernel.text("ptx")


def test_copies_are_the_kernel_itself() -> None:
    kernel = ts.compile(LAYER, constants={"B": B})
    model = {"layer": kernel}
    assert copy.copy(kernel) is kernel and copy.deepcopy(model)["layer"] is kernel
