"""Answers from recorded tables: a search is tested with no compiler, no clock and no noise.

A table is one gzip JSON file that holds every valid configuration of a kernel with its time:

    {"name", "device", "kernel", "problem_size",
     "parameters": {name: [values]}, "columns": [names], "configs": [[values]],
     "ms": [float or null], "status": ["ok" | why it failed]}

`ReplaySpace` shows it to a strategy, `ReplayRunner` answers the jobs. There is no loop tree behind it: one config space,
no prior, and the raw parameters as features.
"""

from __future__ import annotations

import gzip
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.cached import cached_property
from ..common.errors import ArgumentError
from ..schedules.space import Choices, ConfigSpace, ConfigValue, Parameter, Population
from .result import AtEnd, Config, Failure, Job, Measurement, Status

_STATUS = {
    "ok": Status.OK,
    "CompilationFailedConfig": Status.COMPILE_ERROR,
    "RuntimeFailedConfig": Status.CRASH,
    "InvalidConfig": Status.INVALID,
}


@dataclass(frozen=True, eq=False)
class ReplayTable:
    """A recorded space: `choices` is int32[n, parameters] (positions in the domains), `seconds` float64[n] (nan: failed)."""

    name: str
    device: str
    parameters: tuple[Parameter, ...]
    choices: Choices
    seconds: NDArray[np.float64]
    status: tuple[str, ...]

    @cached_property
    def best(self) -> float:
        """Seconds of the fastest configuration."""
        return float(np.nanmin(self.seconds))

    @cached_property
    def _codes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows' mixed-radix codes in ascending order, and the row of each."""
        codes = self._encode(self.choices)
        order = np.argsort(codes)
        return codes[order], order

    def _encode(self, choices: Choices) -> NDArray[np.int64]:
        dims = tuple(len(p.values) for p in self.parameters)
        return np.asarray(np.ravel_multi_index(tuple(choices.T.astype(np.int64)), dims), dtype=np.int64)

    def rows(self, choices: Choices) -> NDArray[np.int64]:
        """int64[n]: the table's row of each candidate, -1 where the table has none."""
        codes, order = self._codes
        wanted = self._encode(choices)
        place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        return np.where(codes[place] == wanted, order[place], -1)

    def row_of(self, config: Config) -> int:
        """The row of a config given by name and value; -1 where the table has none."""
        try:
            positions = [p.values.index(config[p.name]) for p in self.parameters]
        except (KeyError, ValueError):
            return -1
        return int(self.rows(np.array([positions], dtype=np.int32))[0])

    def measurement(self, row: int) -> Measurement:
        """Returns what the table says of a row; -1 is a candidate that breaks the space's restrictions."""
        if row < 0:
            return Measurement(Status.INVALID, failure=Failure("lower", f"{self.name} has no such configuration"))
        status = _STATUS.get(self.status[row], Status.CRASH)
        if status is not Status.OK:
            stage = "compile" if status is Status.COMPILE_ERROR else "time"
            failure = Failure(stage, f"{self.name} recorded {self.status[row]}")
            return Measurement(status, failure=failure, builder="replay", device=self.device)
        return Measurement(status, (float(self.seconds[row]),), builder="replay", device=self.device)


def load_table(path: str | Path) -> ReplayTable:
    """Reads a table. Raises ArgumentError for a file that is none."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return _table(json.load(file))
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ArgumentError(
            f"{path} is no replay table",
            expected="gzip JSON with parameters, columns, configs, ms, status",
            found=f"{type(error).__name__}: {error}",
            advice="pass the path of a recorded space",
        ) from error


def _table(data: dict[str, Any]) -> ReplayTable:
    columns: list[str] = data["columns"]
    domains: list[list[ConfigValue]] = [data["parameters"][name] for name in columns]
    positions = [{value: place for place, value in enumerate(domain)} for domain in domains]
    rows = [[places[value] for places, value in zip(positions, row, strict=True)] for row in data["configs"]]
    choices = np.array(rows, dtype=np.int32).reshape(len(rows), len(columns))
    if not len(choices) == len(data["ms"]) == len(data["status"]) > 0:
        raise ValueError("configs, ms and status must have one entry each, and at least one")
    # The first row is a configuration that exists, which the product of first values need not be.
    parameters = tuple(
        Parameter(name, tuple(domain), default=int(first), ordered=not isinstance(domain[0], str | bool))
        for name, domain, first in zip(columns, domains, choices[0], strict=True)
    )
    seconds = np.array([np.nan if ms is None else ms * 1e-3 for ms in data["ms"]])
    return ReplayTable(data["name"], data["device"], parameters, choices, seconds, tuple(data["status"]))


class ReplaySpace:
    """A table as a search space (implements `schedules.space.Space`)."""

    def __init__(self, table: ReplayTable | str | Path) -> None:
        self.table = table if isinstance(table, ReplayTable) else load_table(table)
        shape = repr([(p.name, p.values) for p in self.table.parameters])
        key = sha256(f"{self.table.name}\n{shape}".encode()).hexdigest()
        self._config_spaces = (ConfigSpace(key, self.table.name, self.table.parameters),)
        self._values = [_numbers(p) for p in self.table.parameters]

    @property
    def config_spaces(self) -> Sequence[ConfigSpace]:
        """The only config space."""
        return self._config_spaces

    def valid(self, population: Population) -> NDArray[np.bool_]:
        """bool[n]: whether the table has the configuration. One that failed when it was recorded is valid."""
        return np.asarray(self.table.rows(population.choices) >= 0)

    def prior(self, population: Population) -> NDArray[np.float64] | None:
        """Returns None: nothing is known beforehand."""
        return None

    def features(self, population: Population) -> NDArray[np.float32]:
        """float32[n, parameters]: the raw values; the position of what is no number."""
        columns = [values[population.choices[:, i]] for i, values in enumerate(self._values)]
        return np.stack(columns, axis=1) if columns else np.zeros((len(population), 0), np.float32)


def _numbers(parameter: Parameter) -> NDArray[np.float32]:
    if any(isinstance(value, str) for value in parameter.values):
        return np.arange(len(parameter.values), dtype=np.float32)
    return np.array(parameter.values, dtype=np.float32)


class ReplayRunner(AtEnd):
    """Answers jobs from a table; only `Job.config` is looked at (implements `measure.result.Runner`)."""

    name = "replay"

    def __init__(self, table: ReplayTable | str | Path, capacity: int = 8) -> None:
        self.table = table if isinstance(table, ReplayTable) else load_table(table)
        self.capacity = capacity
        self._waiting: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        """Takes a job."""
        self._waiting.append(job)

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        """All that was submitted; a table does not make anyone wait."""
        done = [(job.number, self._answer(job)) for job in self._waiting]
        self._waiting.clear()
        return done

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        """The table's answers once more: it has no noise."""
        return [(job.number, self._answer(job)) for job in jobs]

    def _answer(self, job: Job) -> Measurement:
        return self.table.measurement(self.table.row_of(job.config))

    def close(self) -> None:
        """Forgets what was not collected."""
        self._waiting.clear()
