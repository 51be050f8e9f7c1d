"""Rows of the database as data. A database may come from anybody: what is no task and no record counts as none."""

from __future__ import annotations

import json
from math import inf
from typing import Any, get_args

from ...measure.result import Failure, Measurement, Purpose, Status
from ...targets.target import MOST_THREADS
from ...tensor.accuracy import Accuracy
from .data import Record, TaskIdentity, Trial

COLUMNS = (
    "task, sketch, config, builder, machine, run, purpose, status, times, seconds, abandoned, stage, message, "
    "compile_seconds, check_seconds, measure_seconds, device, created, elapsed"
)


def is_task(row: tuple[object, ...]) -> bool:
    """Says whether a row can be a task: a database may come from anybody."""
    *texts, threads, accuracy, in_model = row
    counts = (
        isinstance(threads, int)
        and 1 <= threads <= MOST_THREADS
        and accuracy in get_args(Accuracy)
        and in_model in (0, 1)
    )
    return counts and all(isinstance(text, str) for text in texts)


def task_of(row: tuple[Any, ...]) -> TaskIdentity:
    """The task of a row that can be one."""
    _, program_key, family_key, program, display, target_key, target, threads, accuracy, in_model = row
    return TaskIdentity(
        program_key, family_key, program, display, target_key, target, threads, accuracy, bool(in_model)
    )


def record_or_none(row: tuple[object, ...]) -> Record | None:
    """A row that is no record counts as none, and costs no other."""
    try:
        record = _record(row)
        usual = all(isinstance(value, int | str) for value in record.config.values())
    except (ValueError, TypeError, AssertionError, AttributeError, OverflowError, RecursionError):
        return None
    return record if usual and all(_is_time(seconds) for seconds in record.trial.measurement.times) else None


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < inf


def _record(row: tuple[object, ...]) -> Record:
    (identifier, task, sketch, config, builder, machine, run, purpose, status, times, _, abandoned, stage, message,
     compile_seconds, check_seconds, measure_seconds, device, created, elapsed) = row  # fmt: skip
    measurement = Measurement(
        status=Status(str(status)),
        times=tuple(json.loads(str(times))),
        failure=Failure(str(stage), str(message)) if stage or message else None,
        abandoned=bool(abandoned),
        compile_seconds=_number(compile_seconds),
        check_seconds=_number(check_seconds),
        measure_seconds=_number(measure_seconds),
        builder=str(builder),
        device=str(device),
    )
    trial = Trial(str(task), str(sketch), str(config), str(machine), str(run), Purpose(str(purpose)), measurement,
                  _number(created), _number(elapsed))  # fmt: skip
    return Record(int(_number(identifier)), trial)


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value
