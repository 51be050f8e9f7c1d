"""Programs of several nests: an object for each of them, compiled once for all candidates that have it in common."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.emit.cpu.module import emit_parts
from tilesmith.codegen.ir.memory_plan import plan_memory
from tilesmith.codegen.ir.nest_part import NestPart
from tilesmith.codegen.pipeline import build, loop_program
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

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
    table, first, second = sums.parts
    assert sums.code is products.code, "what calls the nests knows them by their places only"
    assert first is products.parts[1] and second != products.parts[2] and table != products.parts[0]
    assert built("+", threads=1).parts[1] is not first


def test_nests_apart_compute_what_they_should() -> None:
    x = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32)
    row = x.sum(1, keepdims=True)
    for operator, expected in (("+", x + row), ("*", x * row), ("+", x + row)):
        np.testing.assert_allclose(Kernel(built(operator))(x), expected, rtol=1e-4, atol=1e-4)


def test_texts_tell_of_all_nests() -> None:
    built_with_texts = built("-", texts=True)
    for launch in built_with_texts.launches:
        assert f"{launch.symbol}(" in built_with_texts.texts["llvm"]
        assert f"{launch.symbol}:" in built_with_texts.texts["asm"].replace('"', "")


def part(text: str, threads: int = 2) -> NestPart:
    """The last nest of a program."""
    program = loop_program(parse(text), UNSCHEDULED, {}, HOST)
    return emit_parts(program, plan_memory(program, threads))[1][-1]


def test_nests_are_the_same_whatever_stands_before_them() -> None:
    sums = "input x: f32[40, 24]\n{}s[i: 40] = sum[k: 24](x[i, k])\nreturn {}s\n"
    alone, second = (part(sums.format(*other)) for other in (("", ""), ("d[i: 40] = x[i, 3] * 2\n", "d, ")))
    assert alone.nest != second.nest and alone.digest == second.digest
    assert alone.digest != part(sums.format("", "").replace("24](x[i, k])", "23](x[i, k + 1])")).digest


DIGEST = """
input x: f32[40, 24]
table a: f32[2] = [1, 2]
t[i: 40] = sum[k: 2](exp(x[i, k + 3]) * 2 * a[k])
return t
"""
CHANGES = {"40": "41", "24": "25", "f32": "f64", " * 2": " * 3", "exp": "log", "a[k]": "a[1 - k]", "[1, 2]": "[1, 3]"}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_the_code_changes_the_digest(change: str) -> None:
    assert part(DIGEST).digest != part(DIGEST.replace(change, CHANGES[change])).digest


def test_threads_change_the_digest() -> None:
    assert part(PROGRAM.format("+")).digest != part(PROGRAM.format("+"), threads=1).digest


def test_programs_of_one_nest_are_one_object() -> None:
    one = parse("input x: f32[40]\ny[i: 40] = x[i] * 2\nreturn y\n")
    assert build(one, UNSCHEDULED, {}, HOST, 2).parts == ()
