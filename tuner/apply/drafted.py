"""What the analytic model drafts for a task, kept on disk: a draft takes about a second, and comes out the same as long as the
task, the ceilings of the machine and the code do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...codegen.backends.cpu import builder_version
from ...common.code_state import code_state
from ...common.kept_files import KeptFiles, key_of
from ...common.outside import let_through
from ...common.settings import CACHE
from ...schedules.sketch import UNSCHEDULED, Sketch, parse_sketch
from ...schedules.space import ConfigValue
from ...schedules.task import Task
from ...targets.ceilings import Ceilings

_KIND = b"draft 2\n"
_DECIDING = ("targets", "tensor", "schedules", "cost_model", "tuner")  # rules, models, and the search


DraftedPick = tuple[float, int, Sketch, Mapping[str, ConfigValue]]  # predicted seconds, bytes of constants, and of what


@dataclass(frozen=True, slots=True)
class Drafted:
    """The best of each structure, the best of all first: predicted seconds, bytes of constants that it keeps, sketch ("" for
    the unscheduled nest), config."""

    found: Sequence[tuple[float, int, str, Mapping[str, ConfigValue]]]

    @staticmethod
    def of(found: Iterable[DraftedPick]) -> Drafted:
        """Returns what is kept of a draft."""
        return Drafted([(s, kept, sketch.text if sketch.steps else "", dict(c)) for s, kept, sketch, c in found])

    def read(self) -> Iterator[DraftedPick]:
        """The drafts, each read when it is asked for: mostly that is the first alone."""
        for seconds, kept, text, config in self.found:
            yield seconds, kept, parse_sketch(text) if text else UNSCHEDULED, config

    def in_order_of(self, cost: Callable[[float, int], float]) -> Drafted:
        """Returns the same in order of what seconds and bytes together cost, the least first."""
        return Drafted(sorted(self.found, key=lambda one: cost(one[0], one[1])))


def is_kept(task: Task, ceilings: Ceilings) -> bool:
    """Says whether a draft of the task may be there."""
    return _files().path(_key(task, ceilings)).exists()


def kept_draft(task: Task, ceilings: Ceilings) -> Drafted | None:
    """Returns what was drafted before, or None. Whatever is odd about it makes it none."""
    content = _files().get(_key(task, ceilings))
    try:
        return None if content is None else _read(content)
    except Exception as error:
        let_through(error)
        return None


def keep_draft(task: Task, ceilings: Ceilings, drafted: Drafted) -> None:
    """Keeps a draft for the next time."""
    _files().put(_key(task, ceilings), json.dumps(list(drafted.found)).encode())


def _files() -> KeptFiles:
    return KeptFiles(CACHE.value() / "drafts", ".json", _KIND)


def _key(task: Task, ceilings: Ceilings) -> str:
    code = builder_version(), code_state(*_DECIDING)
    return key_of(task.text, task.target.text, str(task.threads), task.accuracy, ceilings.to_json(), *code)


def _read(content: bytes) -> Drafted | None:
    found = [
        (float(seconds), int(kept), str(text), dict(config)) for seconds, kept, text, config in json.loads(content)
    ]
    return Drafted(found) if found else None
