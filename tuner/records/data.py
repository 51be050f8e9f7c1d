"""What the tuner remembers, as plain data: tasks, machines, runs, records. Nothing here knows SQLite or JSON lines."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...measure.result import Config, Measurement, Purpose
from ...tensor.accuracy import Accuracy
from ...tensor.text.canonical import task_key


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """A task as stored. `program` is the canonical text, `display` the same program in the person's own names."""

    program_key: str
    family_key: str
    program: str
    display: str
    target_key: str
    target: str
    threads: int
    accuracy: Accuracy = "default"
    in_model: bool = False

    @property
    def key(self) -> str:
        """Returns what records are found by."""
        return task_key(self.program_key, self.target_key, self.threads, self.accuracy, self.in_model)


def canonical_config(config: Config) -> str:
    """The config as JSON with sorted names and no blanks: equal configs have equal texts."""
    return json.dumps(dict(config), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Machine:
    """Says where times were measured. `ceilings` is the JSON of the machine's Ceilings ("" when not calibrated)."""

    key: str
    identity: str
    ceilings: str = ""


@dataclass(frozen=True, slots=True)
class StoredSketch:
    """A stored sketch; the unscheduled nest has the text "" and the key ""."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Trial:
    """All that a record says: what was measured, and how it ended. `config` is in canonical JSON."""

    task: str
    sketch: str
    config: str
    machine: str
    run: str
    purpose: Purpose
    measurement: Measurement
    created: float  # seconds since 1970, UTC
    elapsed: float = 0.0  # seconds since the run began, without the time it lay interrupted


@dataclass(frozen=True, slots=True)
class Record:
    """A trial in a database, under the number by which people refer to it."""

    id: int
    trial: Trial

    @property
    def seconds(self) -> float:
        """Median seconds; infinity when the trial failed."""
        return self.trial.measurement.seconds

    @property
    def config(self) -> dict[str, int | str | bool]:
        """The config by name."""
        values: dict[str, int | str | bool] = json.loads(self.trial.config)
        return values


@dataclass(frozen=True, slots=True)
class Run:
    """One call of `tune` on one task. `request` is what was asked for, as JSON: the same one continues a cut run."""

    id: str
    task: str
    request: str
    started: float
    spent: float = 0.0
    state: str = "running"  # running, interrupted, finished
    trials: int = 0  # search records so far
