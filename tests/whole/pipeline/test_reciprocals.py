"""Quotients by what stays the same along vectors: one rounding more where that is ordinary, exactly NumPy's where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import random_config, run
from tilesmith.codegen.ir.loop_ir import If, Store, statements
from tilesmith.codegen.passes.reciprocals import reciprocals
from tilesmith.codegen.pipeline import build, loop_program
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.expr import Const, Op, walk
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
DIVISORS = [3.0, -7.5, 2.0**63, 2.0**-63, 1e-40, 3e38, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, 1e30]
DIVIDENDS = [1.0, -3.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1e-30, 7.0, 0.1]


def task(body: str, dtype: str = "f32") -> Task:
    head = f"input x: {dtype}[13, 40]\ninput s: {dtype}[13]\n"
    return Task.of(parse(f"{head}y[i: 13, j: 40] = {body}\nreturn y\n"), HOST, 1)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_results_are_those_of_a_division(dtype: str) -> None:
    one = task("x[i, j] / s[i]", dtype)
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    s = np.array(DIVISORS, kind)
    x = np.resize(np.array([*DIVIDENDS, *np.linspace(-9, 9, 28)], kind), (13, 40))
    values = random_config(one, one.sketches[-1], np.random.default_rng(0))
    assert values is not None
    artifact = build(one.program, one.sketches[-1], values, HOST, 1, texts=True)
    assert f"fmul contract <{64 // np.dtype(kind).itemsize} x" in artifact.texts["llvm"] or HOST.vector_bits != 512
    (found,) = run(artifact, one, [x, s], at_end=True)
    with np.errstate(all="ignore"):
        wanted = x / s[:, None]
    normal = np.isfinite(wanted) & (np.abs(wanted) >= np.finfo(kind).tiny)
    assert np.array_equal(np.asarray(found)[~normal], wanted[~normal], equal_nan=True)
    assert np.all(np.abs(found[normal] / wanted[normal] - 1) <= 2 * np.finfo(kind).eps)


@pytest.mark.parametrize("body", ["x[i, j] / (x[i, j] + 1)", "x[i, j] / 3", "s[i] / x[i, j]", "x[i, j] * s[i]"])
def test_other_programs_stay_as_they_are(body: str) -> None:
    one = task(body)
    for sketch in one.sketches:
        values = random_config(one, sketch, np.random.default_rng(0)) or {}
        loops = loop_program(one.program, sketch, values, HOST)
        assert reciprocals(loops) == loops


def test_all_divisors_of_a_loop_are_asked_for_at_once() -> None:
    one = Task.of(
        parse(
            "input x: f32[5, 40]\ninput s: f32[]\ninput r: f32[]\ny[i: 5, j: 40] = (x[i, j] / s[] + 20) / r[]\nreturn y\n"
        ),
        HOST,
        1,
    )
    values = random_config(one, one.sketches[-1], np.random.default_rng(0))
    assert values is not None
    artifact = build(one.program, one.sketches[-1], values, HOST, 1)
    x = np.linspace(-9, 9, 200, dtype=np.float32).reshape(5, 40)
    for s, r in ((3.0, 7.0), (0.0, 3.0), (3.0, 1e-40), (np.inf, np.nan), (-(2.0**63), 2.0**64)):
        ends = [np.array(s, np.float32), np.array(r, np.float32)]
        (found,) = run(artifact, one, [x, *ends], at_end=True)
        with np.errstate(all="ignore"):
            wanted = (x / ends[0] + np.float32(20)) / ends[1]
        assert np.allclose(found, wanted, rtol=1e-6, atol=0, equal_nan=True)
    narrow = Task.of(
        one.program, parse_target("x86:avx2"), 1
    )  # its vectors divide the rows, so there is one loop over them
    values = random_config(narrow, narrow.sketches[-1], np.random.default_rng(0))
    assert values is not None
    fast = reciprocals(loop_program(narrow.program, narrow.sketches[-1], values, narrow.target))
    asked = [s for s in statements(fast.nests[0].body) if isinstance(s, If)]
    quotients = [node for store in statements(asked[0].then) if isinstance(store, Store) for node in walk(store.value)]
    assert len(asked) == 1
    assert not any(isinstance(q, Op) and q.name == "div" and q.args[0] != Const(1.0, f32) for q in quotients)
