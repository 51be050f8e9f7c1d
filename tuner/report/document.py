"""Everything on a page, as data: the tasks, the model that they belong to, and where all of it comes from."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from ...codegen.backends.cpu import builder_version
from ..records.data import TaskIdentity
from ..records.database import Database
from .layers import ShownModel
from .task import ShownTask, shown_task

MOST = 200  # tasks of a page


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and what it is."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """All of a page. `models`: one for each target that a model was tuned for; `left`: tasks that there was no room for."""

    title: str
    made: float
    tasks: list[ShownTask]
    models: list[ShownModel]
    facts: list[Fact]
    left: int


def document_of(
    database: Database, title: str, tasks: Sequence[TaskIdentity], models: Sequence[ShownModel]
) -> Document:
    """The document of some tasks of a database."""
    shown = [shown_task(database, task) for task in tasks[:MOST]]
    return Document(title, time.time(), shown, list(models), _facts(database, shown, tasks), len(tasks) - len(shown))


def _facts(database: Database, shown: Sequence[ShownTask], tasks: Sequence[TaskIdentity]) -> list[Fact]:
    """Provenance: which versions, machines and targets the figures are of."""
    builders = dict.fromkeys(task.best.builder for task in shown if task.best is not None)
    places = dict.fromkeys(record for task in tasks[:MOST] for record in _machines(database, task.key))
    return [
        Fact("report", f"Tilesmith {version('tilesmith')}, {builder_version()}"),
        Fact("database", database.path.name),
        *(Fact("kernels built by", one) for one in builders if one),
        *(Fact("measured on", _machine_text(database, key)) for key in places),
        *(Fact("target", text) for text in dict.fromkeys(task.target for task in tasks[:MOST])),
    ]


def _machines(database: Database, task: str) -> list[str]:
    return list(dict.fromkeys(record.trial.machine for record in database.records(task)))


def _machine_text(database: Database, key: str) -> str:
    """The model of a processor, or a GPU's name, and its cores; the first digits of its key where it tells none."""
    found = database.machine(key)
    try:
        facts = json.loads(found.identity) if found is not None else {}
        if "gpu" in facts:
            return str(facts["gpu"]["name"])
        usable, present = facts["cores"]
        return f"{facts['model'].get('model name', facts['architecture'])}, {usable} of {present} cores"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return f"machine {key[:12]}"
