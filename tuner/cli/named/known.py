"""Records by the numbers that people have for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ....common.errors import NoRecordError

if TYPE_CHECKING:
    from ....schedules.sketch import Sketch
    from ...records.data import Record, TaskIdentity
    from ...records.database import Database


def is_key(what: str) -> bool:
    """Says whether a word is the first digits of a task."""
    return re.fullmatch(r"[0-9a-f]{4,64}", what) is not None


def known_record(database: Database, number: int) -> tuple[Record, TaskIdentity]:
    """The record of a number, with its task. Errors: NoRecordError."""
    from ...records.claims import understood

    record = database.record(number)
    task = database.task(record.trial.task) if record else None
    if record is None or task is None or not understood([task]):
        raise NoRecordError(
            f"there is no record {number}", found=str(database.path), advice="`tune show WHAT` lists them"
        )
    return record, task


def record_sketch(database: Database, record: Record) -> Sketch:
    """The sketch of a record; that of the unscheduled nest where there is none."""
    from ....schedules.sketch import UNSCHEDULED, parse_sketch

    found = database.sketch(record.trial.sketch)
    return parse_sketch(found.text) if found is not None and found.text else UNSCHEDULED
