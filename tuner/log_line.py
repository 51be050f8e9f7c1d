"""One line of a log, as pydantic checks it. Imported only where logs are read or written: pydantic is slow to load."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StrictBool, StrictInt, StrictStr

from ..measure.result import Purpose, Status
from ..tensor.accuracy import Accuracy

Seconds = Annotated[FiniteFloat, Field(ge=0)]


class Strict(BaseModel):
    """Unknown names are errors: a log of a newer version is not half understood."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MachineLine(Strict):
    """Where it was measured."""

    identity: str
    ceilings: str = ""


class FailureLine(Strict):
    """Why it failed."""

    stage: str
    message: str


class Line(Strict):
    """A record that needs nothing beside itself: all texts in full, names in the order in which people look for them."""

    format: Literal[1] = 1
    program: str
    target: str
    threads: Annotated[int, Field(ge=1)]
    accuracy: Accuracy = "default"
    sketch: str
    config: dict[str, StrictBool | StrictInt | StrictStr]
    purpose: Purpose = Purpose.SEARCH
    status: Status
    times: tuple[Annotated[FiniteFloat, Field(gt=0)], ...] = ()
    failure: FailureLine | None = None
    abandoned: bool = False
    builder: str
    machine: MachineLine
    device: str = ""
    compile_seconds: Seconds = 0.0
    check_seconds: Seconds = 0.0
    measure_seconds: Seconds = 0.0
    run: str
    created: Seconds
    elapsed: Seconds = 0.0
