"""Arguments of public functions that are of the wrong kind: one clear error each, and numbers of NumPy's are numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import ArgumentError, BudgetError, ProgramError, TargetError, TemplateError, UserError
from tilesmith.tuner.records.database import Database

PROGRAM = ts.parse("input x: f32[8]\ny[i: 8] = x[i] * 2\nreturn y")
ANY: Any = ts


def tune(place: Path, *what: Any, **options: Any) -> Any:
    return ANY.tune(
        *what or (PROGRAM,), **{"trials": 1, "threads": 1, "progress": False, "db": place / "t.sqlite", **options}
    )


WRONG: list[tuple[Callable[[Path], object], type[UserError], str]] = [
    (lambda at: tune(at, trials="5"), BudgetError, "trials is no number"),
    (lambda at: tune(at, trials=True), BudgetError, "trials is no number"),
    (lambda at: tune(at, seconds="1m"), BudgetError, "seconds is no number"),
    (lambda at: tune(at, threads="2"), ArgumentError, "threads is no whole number"),
    (lambda at: tune(at, target=5), TargetError, "that is no target"),
    (lambda at: tune(at, None), ArgumentError, "that is no program"),
    (lambda at: tune(at, ts.ops.matmul), ArgumentError, "that is no program"),
    (lambda at: tune(at, runner=5), ArgumentError, "that is no runner"),
    (lambda at: tune(at, weights=["a"]), ArgumentError, "the weights do not fit"),
    (lambda at: tune(at, inputs=[1]), ArgumentError, "inputs are arrays by their names"),
    (lambda at: tune(at, inputs={"x": np.ma.zeros(8, np.float32)}), ArgumentError, "masked array"),
    (lambda at: tune(at, callbacks=None), ArgumentError, "no callback"),
    (lambda at: tune(at, template="a"), TemplateError, "a template is a function"),
    (lambda at: tune(at, progress="x"), ArgumentError, "progress is no watcher"),
    (lambda at: tune(at, db=5), ArgumentError, "the place of the database is no path"),
    (lambda at: tune(at, db="a\0b"), ArgumentError, "the place of the database is no path"),
    (lambda at: ANY.compile(PROGRAM, threads=1.5), ArgumentError, "threads is no whole number"),
    (lambda at: ANY.compile(PROGRAM, threads=True), ArgumentError, "threads is no whole number"),
    (lambda at: ANY.compile(PROGRAM, target=None), TargetError, "that is no target"),
    (lambda at: ANY.compile(PROGRAM, db=b"t.sqlite"), ArgumentError, "the place of the database is no path"),
    (lambda at: ANY.parse(None), ProgramError, "the text of a program is no text"),
    (lambda at: ANY.parse(PROGRAM), ProgramError, "it is a program already"),
    (lambda at: ANY.load(None), ArgumentError, "the place of what was saved is no path"),
    (lambda at: ANY.report("a", at / "a.html", db=tuned(at)), ArgumentError, "that is no program"),
    (lambda at: ANY.export(PROGRAM, at / "file" / "in", threads=1), ArgumentError, "cannot be written"),
    (lambda at: ANY.compile(PROGRAM, threads=1).save(at / "file"), ArgumentError, "cannot be written"),
]


def tuned(place: Path) -> Path:
    with Database(place / "empty.sqlite"):
        return place / "empty.sqlite"


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_is_of_the_wrong_kind_is_refused(number: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    call, kind, told = WRONG[number]
    with pytest.raises(kind) as caught:
        call(tmp_path)
    assert told in str(caught.value)


def test_integers_of_numpy_are_numbers() -> None:
    kernel = ts.compile(PROGRAM, threads=np.int64(1))  # type: ignore[arg-type]
    assert kernel.artifact.threads == 1 and type(kernel.artifact.threads) is int
    assert (kernel(np.ones(8, np.float32)) == 2).all()
