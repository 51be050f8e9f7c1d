"""`tune compile`: libraries from the command line, and its errors."""

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

from helpers.command_line.records import Call

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def test_an_operator_becomes_a_library(call: Call, tmp_path: Path) -> None:
    b = np.random.default_rng(0).standard_normal((30, 20)).astype(np.float32)
    np.savez(tmp_path / "b.npz", B=b)
    words = ["matmul", "m=10", "n=20", "k=30", "--constant", "B", "--constants", tmp_path / "b.npz"]
    answer = call("compile", *words, "-o", tmp_path / "out", "--threads", "1", "--name", "product", "--beside")
    assert answer.code == 0 and "product.h" in answer.out and "product_example" in answer.out
    library = ctypes.CDLL(str(tmp_path / "out" / "libproduct.so"))
    assert library.product_init(str(tmp_path / "out" / "product.weights").encode()) == 0
    a, found = np.eye(10, 30, dtype=np.float32), np.full((10, 20), np.nan, np.float32)
    pointers = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (a, found)]
    assert library.product_run(*pointers, None) == 0
    np.testing.assert_array_equal(found, b[:10])


def test_what_is_missing_is_said(call: Call, tmp_path: Path) -> None:
    product = ["matmul", "m=10", "n=20", "k=30", "--threads", "1", "-o", tmp_path / "out"]
    np.savez(tmp_path / "other.npz", C=np.zeros(3))
    for words, said in (
        ([*product, "--constant", "B"], "values of constants are not known"),
        ([*product, "--constant", "B", "--constants", tmp_path / "other.npz"], "constants do not fit the program"),
        ([*product, "--constants", tmp_path / "other.npz"], "there are no constants to be taken"),
        ([*product, "--targets", "x86:sse2,cuda:sm_90a"], "only kernels for processors"),
        ([*product, "--name", "a-b"], "begin of C names"),
    ):
        answer = call("compile", *words)
        assert answer.code == 2 and said in answer.err, answer
    assert not (tmp_path / "out").exists()
