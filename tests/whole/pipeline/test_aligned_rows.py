"""Rows that are no whole lines long: all vectors but the first and last of a row begin at lines, and results stay right."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import complaint, random_config
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
PROGRAMS = {
    "softmax": "input x: f32[23, {n}]\nm[i: 23] = max[j: {n}](x[i, j])\ne[i: 23, j: {n}] = exp(x[i, j] - m[i])\n"
    "s[i: 23] = sum[j: {n}](e[i, j])\ny[i: 23, j: {n}] = e[i, j] / s[i]\nreturn y\n",
    "norm": "input x: f32[3, 7, {n}]\ns[b: 3, i: 7] = sum[j: {n}](x[b, i, j] * x[b, i, j])\n"
    "y[b: 3, i: 7, j: {n}] = x[b, i, j] / (s[b, i] + 1)\nreturn y\n",
    "halves": "input x: f64[11, {n}]\ns[i: 11] = max[j: {n}](x[i, j])\ny[i: 11, j: {n}] = x[i, j] - s[i]\nreturn y\n",
}


def task(text: str, target: str = HOST.text) -> Task:
    return Task.of(parse(text), parse_target(target), 1)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [257, 303, 319])
@pytest.mark.parametrize("target", ["x86:sse2", HOST.text])
def test_results(name: str, n: int, target: str) -> None:
    one = task(PROGRAMS[name].format(n=n), target)
    rng = np.random.default_rng(n)
    asked = 0
    for sketch in one.sketches:
        values = random_config(one, sketch, rng)
        flags = [key for key in values or {} if key.endswith(".aligned")]
        if values is None or not flags:
            continue
        values |= dict.fromkeys(flags, 1) | {key: 1 for key in values if key.endswith(".rows")}
        asked += 1
        assert "first_" in build(one.program, sketch, values, one.target, 1, texts=True).texts["loops"]
        assert complaint(one, sketch, values, n, at_end=bool(asked % 2)) is None
    assert asked


def test_rows_of_whole_lines_are_left_alone() -> None:
    assert all("align(" not in sketch.text for sketch in task(PROGRAMS["softmax"].format(n=320)).sketches)


def streamed(s: Schedule) -> None:
    y = s.stage(s.program.outputs[0])
    pieces = s.split(y.axes[1], 2, s.lanes(y.definition.tensors[0].dtype))
    s.reorder(y.axes[0], *pieces)
    s.unroll(pieces[1])
    s.vectorize(pieces[2])
    s.streaming(y.name, 1)


def test_streaming_stores_of_rows_that_begin_anywhere() -> None:
    program = parse("input x: f32[9, 301]\ninput b: f32[9]\ny[i: 9, j: 301] = x[i, j] + b[i]\nreturn y\n")
    one = Task.of(program, HOST, 1)
    (sketch,) = trace(streamed, one.body)
    texts = build(program, sketch, {}, HOST, 1, texts=True).texts
    assert "!nontemporal" in texts["llvm"]
    for at_end in (False, True):
        assert complaint(one, sketch, {}, 1, at_end) is None


@pytest.mark.parametrize("step", ["align", "streaming"])
def test_copies_in_the_order_of_their_loops_are_left_alone(step: str) -> None:
    """Where such a copy stores something goes by its trips."""

    def copied(s: Schedule) -> None:
        y = s.stage(s.program.outputs[0])
        copy = s.compute_at(s.copy("x0", y.name).name, y.loops[0])
        pieces = s.split(copy.loops[1], 2, 8)
        s.unroll(pieces[1])
        s.vectorize(pieces[2])
        getattr(s, step)(copy.name, 1)

    one = Task.of(parse("input x: f32[9, 301]\ninput b: f32[9]\ny[i: 9, j: 301] = x[i, j] + b[i]\nreturn y\n"), HOST, 1)
    (sketch,) = trace(copied, one.body)
    assert "first_" not in build(one.program, sketch, {}, HOST, 1, texts=True).texts["loops"]
    assert complaint(one, sketch, {}, 1) is None
