"""What comes from far away for a block of tiles comes while the first of them is computed, unless hints bring it near."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilesmith.cost_model.analytic import total_seconds
from tilesmith.cost_model.cpu.analysis import Analysis, analyse
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

TARGET = parse_target("x86:avx2; l1=32K; l2=512K; l3=32M")
CEILINGS = default_ceilings(TARGET, 1)


def analysed(program: Program, word: str, **numbers: int) -> Analysis:
    """A schedule in whose text a word stands, with numbers of its anchor that are no usual ones."""
    task = Task.of(program, TARGET, 1)
    sketch = next(one for one in task.sketches if word in one.text)
    usual = {t.name: 1 for t in sketch.tunables}
    named = {name: next((v for k, v in numbers.items() if name.endswith(f".{k}")), one) for name, one in usual.items()}
    return analyse(sketch.apply(task.body, TARGET, named), TARGET, 1)


def product(**numbers: int) -> Analysis:
    program = ops.matmul(48, 3072, 768, constants=("B",))
    return analysed(program, "bring(t0, copy0, ", rows=4, vectors=3, unroll=4, **numbers)


def time(analysis: Analysis) -> float:
    seconds: Any = total_seconds(analysis, TARGET, 1, CEILINGS)
    return float(seconds)


def test_rows_in_blocks_read_the_other_operand_anew_and_wait_for_it_without_hints() -> None:
    hinted, hinted_blocks = (time(product(bring=1, row_blocks=n)) for n in (1, 3))
    plain, plain_blocks = (time(product(bring=0, row_blocks=n)) for n in (1, 3))
    assert plain > 1.02 * hinted
    assert plain_blocks - plain > 3.0 * (hinted_blocks - hinted) > 0.0


def test_what_comes_in_bursts_nearly_adds_up() -> None:
    analysis = product(bring=0, row_blocks=3)
    (nest,) = analysis.nests
    assert nest.bursts
    spread = time(replace(analysis, nests=(replace(nest, bursts=False),)))
    far = nest.moved[1].read / CEILINGS.bandwidth_at(8 << 20)
    assert 0.3 * far < time(analysis) - spread < far


@pytest.mark.parametrize("stride", [1, 2])
def test_windows_read_most_of_what_they_read_from_near(stride: int) -> None:
    window = ops.conv2d(1, 64, 28, 28, 64, 3, stride=stride, constants=("W",))
    assert not any(nest.bursts for nest in analysed(window, "split(").nests)
    assert any(nest.bursts for nest in product().nests)


def test_operands_that_are_packed_at_each_call_or_not_at_all_come_as_before() -> None:
    """Hints do not cure that rows of what lies as it came drive each other out."""
    program = ops.matmul(197, 768, 768)
    for word in ("bring(t0, x1, ", "copy(copy0, x1, "):
        assert not any(nest.bursts for nest in analysed(program, word).nests)
