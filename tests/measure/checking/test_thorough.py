"""Faults that no sampled check meets are found before a winner is named."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from contracts.faulty import BLOCK_BUILDER, FEW_POINTS_TIMER, ZEROS_BUILDER, with_a_block_of_zeros
from contracts.measure_kernels import TrustingTimer
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import SearchFailed
from tilesmith.measure.checking import verify
from tilesmith.measure.checking.points import draw_points
from tilesmith.measure.checking.verify import Checker
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.process.worker import Link
from tilesmith.measure.requests import ConfirmRequest, TimeRequest
from tilesmith.measure.result import Measurement, Purpose, Status
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.tune import tune

TEXT = "input A: f32[60, 50]\nB[i: 60, j: 50] = A[i, j] * 2.0\nreturn B\n"
FAULTY = str(with_a_block_of_zeros(parse(TEXT)))
OK, WRONG = Status.OK, Status.WRONG_RESULT


class Quiet(Link):
    """A parent that is not listening."""

    def __init__(self) -> None:
        pass

    def stage(self, name: str, item: int = 0) -> None:
        pass

    def quiet(self) -> None:
        pass


def request(text: str, yardstick: bool = False) -> TimeRequest:
    """A kernel of one text that is said to be of TEXT."""
    task = Task.of(parse(text), parse_target("host"), 1)
    built = build(task.program, task.sketches[0], {}, task.target, 1)
    return TimeRequest(str(parse(TEXT)), pickle.dumps(built), 1, yardstick=yardstick)


@pytest.fixture
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials are checked at so few points that they all miss the block."""
    monkeypatch.setattr(verify, "WHOLE_WORK", 0)
    monkeypatch.setattr(verify, "POINTS", 8)


@pytest.fixture
def too_much(few_points: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle cannot tell all."""
    monkeypatch.setattr(verify, "THOROUGH_WORK", 0)
    monkeypatch.setattr(verify, "_MORE_POINTS", 8)


def confirmed(*items: TimeRequest) -> list[Measurement]:
    timer = TrustingTimer(seed=1)
    found = timer.handle(items[-1], Quiet())
    assert isinstance(found, Measurement) and found.ok, "nobody looks there"
    answers = timer.handle(ConfirmRequest(items), Quiet())
    assert isinstance(answers, tuple)
    return list(answers)


def test_the_oracle_finds_what_a_trial_does_not(few_points: None) -> None:
    right, wrong = confirmed(request(TEXT), request(FAULTY))
    assert right.ok and right.times and not right.remark
    assert wrong.status is WRONG and wrong.failure is not None
    assert wrong.failure.message.startswith("B[30, 25]: expected ") and "seed 1" in wrong.failure.message


def test_the_unscheduled_nest_finds_it_where_the_oracle_would_take_too_long(too_much: None) -> None:
    wrong, right, nest = confirmed(request(FAULTY), request(TEXT), request(TEXT, yardstick=True))
    assert [wrong.status, right.status, nest.status] == [WRONG, OK, OK]
    assert right.times and not nest.times


def test_a_wrong_yardstick_measures_nothing(too_much: None) -> None:
    tripled = TEXT.replace("2.0", "3.0")
    nest, right = confirmed(request(tripled, yardstick=True), request(TEXT))
    assert nest.status is WRONG and right.ok
    assert "8 of its 3000 elements" in right.remark


def test_what_is_not_checked_everywhere_is_said(too_much: None) -> None:
    (found,) = confirmed(request(FAULTY))
    assert found.ok and "the others are only compared between kernels" in found.remark


def test_kernels_whose_stores_write_zeros_are_refused(tmp_path: Path) -> None:
    programs = [ops.row_sum(16, 512, dtype="bf16"), ops.find_operator("softmax")(rows=16, columns=64, dtype="f16")]
    database = tmp_path / "a.sqlite"
    with (
        LocalRunner("host", 1, builders=1, builder=ZEROS_BUILDER) as runner,
        pytest.raises(SearchFailed, match="wrong_result"),
    ):
        tune(programs, trials=4, threads=1, runner=runner, db=database, progress=False)
    with Database(database) as found:
        ends = [r.trial.measurement.status for task in found.tasks() for r in found.records(task.key)]
    assert len(ends) == 4 and set(ends) == {WRONG}


def test_a_fault_that_all_candidates_share_never_wins(tmp_path: Path) -> None:
    program, database = parse(TEXT), tmp_path / "a.sqlite"
    with (
        LocalRunner("host", 1, builders=1, builder=BLOCK_BUILDER, timer=FEW_POINTS_TIMER, seed=1) as runner,
        pytest.raises(SearchFailed, match="wrong_result"),
    ):
        tune(program, trials=3, threads=1, runner=runner, db=database, progress=False)
    with Database(database) as found:
        (task,) = found.tasks()
        records = found.records(task.key)
        assert found.best(task.key) == []
    ends = {
        purpose: {r.trial.measurement.status for r in records if r.trial.purpose is purpose}
        for purpose in (Purpose.SEARCH, Purpose.CONFIRM)
    }
    assert ends == {Purpose.SEARCH: {OK}, Purpose.CONFIRM: {WRONG}}


def test_seeds_differ_from_run_to_run_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    class Seen(Exception):
        pass

    def starter(handler: str, options: dict[str, int], *_: object) -> None:
        if "seed" in options:
            given.append(options["seed"])
            raise Seen

    monkeypatch.setattr("tilesmith.measure.local._starter", starter)
    for seed in (None, None, 7):
        with pytest.raises(Seen):
            LocalRunner("host", 1, builders=1, seed=seed)
    assert given[2] == 7 and given[0] != given[1]


def test_a_row_of_zeros_meets_a_point_whatever_the_seed() -> None:
    for seed in range(20):
        index = np.unravel_index(draw_points((2048, 3000), 4096, np.random.default_rng(seed)), (2048, 3000))
        assert len(np.unique(index[0])) == 2048 and len(np.unique(index[1])) > 2200


@pytest.mark.parametrize(("rows", "columns"), [(4096, 300), (300, 4096), (1000, 1000)])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_rows_and_blocks_are_found_with_every_seed(rows: int, columns: int, dtype: str) -> None:
    program = parse(f"input A: {dtype}[{rows}, {columns}]\nB[i: {rows}, j: {columns}] = A[i, j] + A[i, j]\nreturn B\n")
    for seed in range(3):
        inputs = random_inputs(program, seed)
        checker = Checker(program, inputs, seed)
        for place in (
            np.index_exp[rows // 2],
            np.index_exp[rows // 2 : rows // 2 + 4, columns // 2 : columns // 2 + 4],
        ):
            output = doubled(inputs[0], dtype)
            assert checker.check([output]) is None
            output[place] = 0
            assert checker.check([output]) is not None


def doubled(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype != "bf16":
        return values + values
    return (((values.astype(np.uint32) << 16).view(np.float32) * 2).view(np.uint32) >> 16).astype(np.uint16)
