"""Programs of several nests: an object for each of them, compiled once for all candidates that have it in common."""

from __future__ import annotations

import numpy as np

from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text import parse

HOST = parse_target("host")
PROGRAM = """
input x: f32[40, 24]
s[i: 40] = sum[k: 24](x[i, k])
y[i: 40, j: 24] = x[i, j] {} s[i]
return y
"""


def built(operator: str, threads: int = 2, texts: bool = False) -> Artifact:
    return build(parse(PROGRAM.format(operator)), UNSCHEDULED, {}, HOST, threads, texts)


def test_a_nest_that_is_the_same_is_compiled_once() -> None:
    sums, products = built("+"), built("*")
    assert len(sums.parts) == 2
    assert sums.parts[0] is products.parts[0] and sums.parts[1] != products.parts[1]
    assert built("+", threads=1).parts[0] is not sums.parts[0]


def test_nests_apart_compute_what_they_should() -> None:
    x = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32)
    row = x.sum(1, keepdims=True)
    for operator, expected in (("+", x + row), ("*", x * row), ("+", x + row)):
        np.testing.assert_allclose(Kernel(built(operator))(x), expected, rtol=1e-4, atol=1e-4)


def test_texts_tell_of_all_nests() -> None:
    texts = built("-", texts=True).texts
    for number in range(2):
        assert f".nest{number}(" in texts["llvm"] and f".nest{number}:" in texts["asm"].replace('"', "")


def test_programs_of_one_nest_are_one_object() -> None:
    one = parse("input x: f32[40]\ny[i: 40] = x[i] * 2\nreturn y\n")
    assert build(one, UNSCHEDULED, {}, HOST, 2).parts == ()
