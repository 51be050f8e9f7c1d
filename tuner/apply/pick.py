"""What `compile` has decided on, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...schedules.sketch import Sketch
from ...schedules.space import ConfigValue
from ...tensor.accuracy import Accuracy
from ..units import time_text

_UNRECORDED = {"analytic": "analytic model", "default": "unscheduled nest"}


@dataclass(frozen=True, slots=True)
class Provenance:
    """Says where the configuration of a kernel comes from."""

    tier: str  # exact, near, family, analytic, default
    record: int | None  # its number in the database
    sketch: str
    config: Mapping[str, ConfigValue]
    seconds: float | None  # as measured on this machine by this version; only of the tier exact
    note: str = ""
    log: str = ""  # the log that the record comes from, if it is none of the database
    accuracy: Accuracy = "default"  # what the kernel may do to the program's arithmetic (docs/accuracy.md)

    @property
    def source(self) -> str:
        """Says which record, or what else."""
        source = f"record {self.record}" if self.record is not None else _UNRECORDED[self.tier]
        return f"{source} of {self.log}" if self.log else source

    def __str__(self) -> str:
        time = f", {time_text(self.seconds)} when tuned" if self.seconds is not None else ""
        strict = f", {self.accuracy} accuracy" if self.accuracy != "default" else ""
        return f"{self.tier}: {self.source}{time}{f' ({self.note})' if self.note else ''}{strict}"


@dataclass(frozen=True, slots=True)
class Pick:
    """A candidate that will be compiled."""

    sketch: Sketch
    config: Mapping[str, ConfigValue]
    provenance: Provenance

    def noting(self, note: str) -> Pick:
        """The same with more to say about where it comes from."""
        known = self.provenance.note
        return replace(self, provenance=replace(self.provenance, note=f"{known}; {note}" if known else note))
