"""Stages in the order in which each stands behind those it reads, in models of any depth."""

from __future__ import annotations

import sys

from tilesmith.tensor.rewrites.online_softmax import ordered
from tilesmith.tensor.text.parse import parse

TEXT = "input t0: f32[4]\n" + "".join(f"t{n}[i: 4] = t{n - 1}[i] + t{max(n - 3, 0)}[i]\n" for n in range(1, 501))


def test_each_stands_behind_what_it_reads_however_many_there_are() -> None:
    program = parse(f"{TEXT}return t400, t500\n")
    before = sys.getrecursionlimit()
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    sys.setrecursionlimit(depth + 100)  # stages follow each other: they are no calls inside each other
    try:
        found = ordered(program, (), {}, set())
    finally:
        sys.setrecursionlimit(before)
    assert [stage.name for stage in found.stages] == [stage.name for stage in program.stages]


def test_what_no_output_needs_is_gone_and_what_is_replaced_stands_in_its_place() -> None:
    program = parse("input x: f32[4]\na[i: 4] = x[i] + 1.0\nb[i: 4] = a[i] * 2.0\nc[i: 4] = x[i]\nreturn b\n")
    other = parse("input x: f32[4]\nb[i: 4] = x[i] * 3.0\nreturn b\n").stage("b")
    assert [stage.name for stage in ordered(program, (), {}, set()).stages] == ["a", "b"]
    assert ordered(program, (), {"b": other}, set()).stages == (other,)
