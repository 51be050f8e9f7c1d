"""`tune quantize`: a model is saved in fewer bits, and what does not fit is said."""

from pathlib import Path

import numpy as np

import tilesmith
from helpers.command_line.records import Call
from tilesmith.graph.model import Model
from tilesmith.tensor.text.parse import parse

PRODUCT = """
    input x: f32[2, 64]
    constant W: f32[64, 16]
    y[i: 2, j: 16] = sum[k: 64](x[i, k] * W[k, j])
    return y
    """


def saved(folder: Path) -> Path:
    weights = np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32)
    Model(parse(PRODUCT), {"W": weights}, "product").save(folder)
    return folder


def test_a_model_is_saved_in_fewer_bits(call: Call, tmp_path: Path) -> None:
    given, out = saved(tmp_path / "given"), tmp_path / "out"
    np.savez(tmp_path / "call.npz", x=np.ones((2, 64), np.float32))
    answer = call(
        "quantize",
        given,
        "--scheme",
        "static-int8",
        "--calibration",
        tmp_path / "call.npz",
        "-o",
        out,
        "--threads",
        "1",
    )
    assert answer.code == 0 and "static-int8" in answer.out and "weights' error" in answer.out
    assert {value.dtype for value in tilesmith.load(out).constants.values()} == {np.dtype("i1"), np.dtype("f4")}


def test_what_does_not_fit_is_said(call: Call, tmp_path: Path) -> None:
    given = saved(tmp_path / "given")
    np.savez(tmp_path / "other.npz", z=np.ones((2, 64), np.float32))
    for words, said in (
        (["--scheme", "int5"], "unknown scheme 'int5'"),
        (["--scheme", "static-int8"], "needs calibration"),
        (["--scheme", "static-int8", "--calibration", tmp_path / "other.npz"], "another number of inputs"),
        (["--scheme", "static-int8", "--calibration", tmp_path / "none.npz"], "inputs cannot be read"),
    ):
        answer = call("quantize", given, *words, "-o", tmp_path / "out")
        assert answer.code == 2 and said in answer.err, answer
    assert not (tmp_path / "out").exists()
    answer = call("quantize", "matmul", "m=8", "n=8", "k=8", "--scheme", "int8", "-o", tmp_path / "out")
    assert answer.code == 2 and "no model" in answer.err
