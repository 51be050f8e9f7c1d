"""The sketches that run chains of products block by block of rows: their structure, and their code at ragged sizes."""

from __future__ import annotations

from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import check_case
from tilesmith.schedules.auto import derive
from tilesmith.schedules.rules.cpu.rows import row_blocks_of
from tilesmith.schedules.space import config
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NARROW = parse_target("x86:avx512;vector=128")

TWO_PRODUCTS = """
input a: f32[7, 6]
input b: f32[6, 9]
input c: f32[9, 5]
t[i: 7, j: 9] = sum[k: 6](a[i, k] * b[k, j])
u[i: 7, j: 9] = max(t[i, j], 0)
y[i: 7, l: 5] = sum[j: 9](u[i, j] * c[j, l])
return y
"""
PROGRAMS: dict[str, Program] = {
    "attention": ops.attention(2, 7, 9, 5),
    "causal": ops.attention(1, 6, 6, 5, causal=True),
    "masked": ops.attention(2, 5, 6, 4, mask=True),
    "two products": parse(TWO_PRODUCTS.strip()),
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_blocks_of_rows_are_counted_and_run(name: str) -> None:
    program = body_of(PROGRAMS[name])
    sketches = [s for s in derive(program) if any(key.endswith("by rows") and on for key, on in s.variants)]
    assert 1 <= len(sketches) <= 2
    for number, sketch in enumerate(sketches):
        assert any(check_case(program, sketch, NARROW, Random(seed), 9000) for seed in range(8)), sketch.title
        for values in some_configs(program, sketch, 2):
            assert_runs(program, sketch.apply(program, HOST, values), number)


def test_no_matrix_between_the_products_is_whole() -> None:
    program = body_of(ops.attention(4, 512, 512, 64))
    sketch = next(s for s in derive(program) if any(key.endswith("by rows") and on for key, on in s.variants))
    config_space = sketch.config_space(program, HOST)
    tree = sketch.apply(program, HOST, config(config_space, config_space.default))
    whole = [s.stage for s in tree.stages if s.at is None and s.copies is None]
    assert whole == list(program.outputs)


def test_a_product_alone_has_nothing_to_be_together_with() -> None:
    for program in (ops.matmul(8, 8, 8), ops.matmul_softmax(8, 8, 8), ops.softmax(8, 8)):
        assert row_blocks_of(body_of(program)) is None
