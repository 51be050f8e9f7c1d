"""One line of a log, as pydantic checks it. Imported only where logs are read or written: pydantic is slow to load.

Every number and text has a limit: what is larger is no record of any version.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StrictBool, StrictInt, StrictStr

from ...measure.result import Purpose, Status
from ...schedules.sketch import LONGEST
from ...targets.target import MOST_THREADS
from ...tensor.accuracy import Accuracy
from ...tensor.limits import EXTENT, TEXT

_LONG = 1e10  # seconds, 300 years: of times, and since 1970

Seconds = Annotated[FiniteFloat, Field(ge=0, le=_LONG)]
Word = Annotated[StrictStr, Field(max_length=1000)]
Words = Annotated[StrictStr, Field(max_length=100_000)]
RecordNumber = Annotated[StrictInt, Field(ge=-EXTENT, le=EXTENT)]


class Strict(BaseModel):
    """Unknown names are errors: a log of a newer version is not half understood."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MachineLine(Strict):
    """Says where it was measured."""

    identity: Words
    ceilings: Words = ""


class FailureLine(Strict):
    """Says why it failed."""

    stage: Word
    message: Words


class Line(Strict):
    """A record that needs nothing beside itself: all texts in full, names in the order in which people look for them."""

    format: Literal[1] = 1
    program: Annotated[StrictStr, Field(max_length=TEXT)]
    target: Words
    threads: Annotated[StrictInt, Field(ge=1, le=MOST_THREADS)]
    accuracy: Accuracy = "default"
    in_model: StrictBool = False
    sketch: Annotated[StrictStr, Field(max_length=LONGEST)]
    config: Annotated[dict[Word, StrictBool | RecordNumber | Word], Field(max_length=1000)]
    purpose: Purpose = Purpose.SEARCH
    status: Status
    times: Annotated[tuple[Annotated[FiniteFloat, Field(gt=0, le=_LONG)], ...], Field(max_length=100_000)] = ()
    failure: FailureLine | None = None
    abandoned: bool = False
    builder: Word
    machine: MachineLine
    device: Words = ""
    compile_seconds: Seconds = 0.0
    check_seconds: Seconds = 0.0
    measure_seconds: Seconds = 0.0
    run: Word
    created: Seconds
    elapsed: Seconds = 0.0
