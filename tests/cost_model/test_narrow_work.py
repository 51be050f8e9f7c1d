"""What sums of narrow elements cost: a conversion for each place, vectors of results in bytes, words that are added first."""

from __future__ import annotations

import pytest

from helpers.pipeline.narrow_products import product
from tilesmith.cost_model.analytic import predict
from tilesmith.cost_model.cpu.analysis import analyse
from tilesmith.cost_model.cpu.counts import InstructionCounts
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

AVX2 = parse_target("x86:avx2")


def work_of(task: Task, sketch: Sketch, values: dict[str, int]) -> list[InstructionCounts]:
    """The counts of the last nest, the stage that ends it first."""
    tree = sketch.apply(task.body, task.target, values)
    return [work for _, work in analyse(tree, task.target, 1).nests[-1].work]


def filtered(target_text: str, ends: str, rows: int) -> list[InstructionCounts]:
    """A depthwise filter of bytes in register tiles of so many rows, one vector wide."""
    text = f"""
        input x: u8[58, 58, 64]
        constant w: i8[3, 3, 64]
        constant s: f32[64]
        t[p: 56, q: 56, c: 64] = sum[r: 3, k: 3](i32(x[p + r, q + k, c]) * i32(w[r, k, c]))
        y[p: 56, q: 56, c: 64] = {ends.format("min(max(round(f32(t[p, q, c]) * s[c]), 0), 255)")}
        return y
        """
    task = Task.of(parse(text), parse_target(target_text), 1)
    sketch = next(one for one in task.sketches if "in order=true" in one.title)
    names = {"rows": rows, "vectors": 1, "together": 1, "lines": 4}
    return work_of(task, sketch, {one.name: names[one.name.split(".")[-1]] for one in sketch.tunables})


@pytest.mark.parametrize("target", ["x86:avx2", "x86:avx512+avx512vnni"])
def test_bytes_that_end_a_sum_take_the_vectors_of_floats(target: str) -> None:
    """A vector of 8 floats that becomes 8 bytes was counted as the four that fill a register with bytes."""
    (as_bytes, _), (as_floats, _) = (filtered(target, ends, 4) for ends in ("u8({})", "{}"))
    assert as_bytes.operations <= as_floats.operations + as_bytes.stores  # one instruction more for each vector
    assert as_bytes.loads == as_floats.loads
    assert as_bytes.width == as_floats.width == 1.0


def test_bytes_are_converted_once_for_each_place() -> None:
    """Four neighbours of a window of three columns read six places, and convert each once."""
    (_, alone), (_, four) = (filtered("x86:avx2", "u8({})", rows) for rows in (1, 4))
    points = 56 * 56 * 64 / 8 * 9
    assert alone.operations == pytest.approx(points * (1 + 1 + 1))  # a sum, and conversions of data and of coefficients
    assert four.operations == pytest.approx(points * (1 + 6 / 12 + 1 / 4))


def test_crossed_words_need_two_registers_of_each_operand() -> None:
    """4 x 3 sums of crossed words went through memory: 128 x 768 x 768 took 1.23 ms, with 4 x 2 1.05 (an EPYC of Zen 3)."""
    task = Task.of(parse(product("u8", "i8", 128, 768, 768, "constant")), AVX2, 1)
    ceilings = default_ceilings(AVX2, 1)

    def seconds(crossed: bool, rows: int, vectors: int) -> tuple[float, float]:
        wanted = f"crossed={str(crossed).lower()}"
        sketch = next(one for one in task.sketches if wanted in one.title and "pack rows=false" in one.title)
        usual = {"rows": rows, "vectors": vectors, "unroll": 4}
        values = {
            one.name: usual.get(one.name.split(".")[-1], 1) if one.name.startswith("t2.") else 1
            for one in sketch.tunables
        }
        tree = sketch.apply(task.body, AVX2, values)
        most = max(float(work.registers) for nest in analyse(tree, AVX2, 1).nests for _, work in nest.work)
        return float(predict(tree, AVX2, 1, ceilings, 1)[0]), most

    (fits, few), (spills, many) = seconds(True, 4, 2), seconds(True, 4, 3)
    assert few <= AVX2.vector_registers < many
    assert spills > 1.05 * fits
    (plain, kept), (small, _) = seconds(False, 6, 2), seconds(False, 4, 2)
    assert kept <= AVX2.vector_registers and plain < small
