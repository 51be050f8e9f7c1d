"""Rows of one point that readers say 0 for, as in files of ONNX, run in the rows of their reader, and are right there."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import complaint, random_config
from tilesmith.schedules.rules.row_groups import row_group
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

SOFTMAX = """
    m[n: 1, h: 3, i: 7] = max[j: 21](s[n, h, i, j])
    e[n: 1, h: 3, i: 7, j: 21] = exp(s[n, h, i, j] - m[0, h, i])
    l[n: 1, h: 3, i: 7] = sum[j: 21](e[n, h, i, j])
    p[n: 1, h: 3, i: 7, j: 21] = round(e[0, h, i, j] / l[0, h, i] * 255) / 255
    """
PROGRAMS = {
    "softmax": f"input s: f32[1, 3, 7, 21]{SOFTMAX}return p",
    "attention": f"""
        input q: f32[1, 3, 7, 16]
        input k: f32[1, 3, 21, 16]
        input v: f32[1, 3, 21, 19]
        s[n: 1, h: 3, i: 7, j: 21] = sum[d: 16](q[0, h, i, d] * k[0, h, j, d])
        {SOFTMAX.replace("round(e[0, h, i, j] / l[0, h, i] * 255) / 255", "e[0, h, i, j] / l[0, h, i]")}
        o[n: 1, h: 3, i: 7, d: 19] = sum[j: 21](p[0, h, i, j] * v[0, h, j, d])
        return o
        """,
}


def test_all_of_a_softmax_is_in_its_rows() -> None:
    program = parse(PROGRAMS["softmax"])
    members, shared = row_group(program, program.stage("p"), frozenset())
    assert (set(members), shared) == ({"m", "e", "l"}, 3)


def test_a_sum_whose_vectors_lie_across_the_rows_is_computed_for_several() -> None:
    program = parse("""input x: f32[6, 50, 4, 32]
input y: f32[6, 32, 50]
s[h: 6, c: 32, q: 50] = sum[k: 4](x[h, q, k, c])
t[h: 6, c: 32, q: 50] = s[h, c, q] + y[h, c, q]
return t""")
    assert row_group(program, program.stage("t"), frozenset()) == (["s"], 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_right(name: str) -> None:
    task = Task.of(parse(PROGRAMS[name]), parse_target("host"), 2)
    rng = np.random.default_rng(5)
    tried = 0
    for sketch in task.sketches[:12]:
        values = random_config(task, sketch, rng)
        if values is not None:
            tried += 1
            assert complaint(task, sketch, values, 1, at_end=bool(rng.integers(2))) is None, f"{sketch.title} {values}"
    assert tried
