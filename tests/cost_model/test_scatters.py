"""Sums at computed places: each term meets one place, wherever that is."""

from __future__ import annotations

import pytest

from tilesmith.cost_model.analytic import predict
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512")
ROWS = """\
input place: i64[{terms}]
input x: f32[{terms}, 128]
y[i: {places}, j: 128] = sum[k: {terms}](select(min(max(place[k], 0), {places} - 1) == i, x[k, j], 0))
return y"""


def seconds(places: int, terms: int, blocks: int) -> float:
    """Predicted for rows of 128 that are added up in so many blocks of places, each of which looks at all terms."""
    task = Task.of(parse(ROWS.format(places=places, terms=terms)), TARGET, 2)
    (sketch,) = [one for one in task.sketches if "t0.blocks" in one.text]
    tree = sketch.apply(task.body, TARGET, {"t0.blocks": blocks, "t0.vectors": 4})
    return float(predict(tree, TARGET, 2, default_ceilings(TARGET, 2), 1)[0])


@pytest.mark.parametrize("places", [64, 2000, 20000])
def test_more_blocks_than_threads_look_at_terms_in_vain(places: int) -> None:
    """Two threads of an EPYC 9004, 10,000 rows of 128 to 2,000 places, us: 1 block 176, 4 235, 16 487, 40 924."""
    times = [seconds(places, 10000, blocks) for blocks in (2, 8, 32)]
    assert times == sorted(times) and times[0] < times[-1] / 3


def test_a_term_moves_one_row_and_not_all_places() -> None:
    """Terms as many again take no more than as long again, and places nobody meets cost their filling alone."""
    few, many = seconds(2000, 5000, 1), seconds(2000, 10000, 1)
    assert few < many < 2.5 * few
    assert seconds(20000, 10000, 1) < 20 * seconds(64, 10000, 1)
