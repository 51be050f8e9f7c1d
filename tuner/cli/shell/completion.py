"""What a shell offers when TAB is pressed: operators with their sizes, files, tasks and records of the database.

Whatever goes wrong, nothing is offered: a shell has no place for messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_SIZES = ("64", "512", "1024")  # several, so that a shell adds no blank behind `m=`
_RECORDS = 20  # the best of each task
_FILES = (".tensor", ".onnx", ".model")
_LOGS = (".jsonl",)


def complete_operator(incomplete: str) -> list[str]:
    """The operators that begin so."""
    from ....tensor.ops import OPERATORS

    return sorted(name for name in OPERATORS if name.startswith(incomplete))


def complete_what(incomplete: str) -> list[str]:
    """The operators and the files of programs and models that begin so."""
    return [*complete_operator(incomplete), *_files(incomplete)]


def complete_task(incomplete: str) -> list[tuple[str, str]]:
    """Adds to `complete_what` the tasks of the database by their first digits."""
    return [*_tasks(incomplete), *((name, "") for name in complete_what(incomplete))]


def complete_size(ctx: Any, incomplete: str) -> list[str]:
    """The sizes and options of the operator that stands before; values behind the sign, or where one name is left."""
    words = [str(word) for word in (ctx.params.get("what"), *(ctx.params.get("sizes") or ()))]
    parameters = _parameters(words)
    name, equals, begun = incomplete.partition("=")
    if equals:
        return [f"{name}={value}" for value in _values(parameters, name, begun)]
    given = {word.partition("=")[0] for word in words}
    names = [name for name in parameters if name not in given and name.startswith(incomplete)]
    whole = [f"{name}={value}" for name in names[:1] for value in _values(parameters, name, "")]
    return whole if len(names) == 1 and whole else [f"{name}=" for name in names]


def _parameters(words: Sequence[str]) -> Mapping[str, Any]:
    """The parameters of the operator that was named last, by their names."""
    import inspect

    from ....tensor.ops import OPERATORS

    named = [OPERATORS[word] for word in words if word in OPERATORS]
    found = inspect.signature(named[-1]).parameters if named else {}
    return {name: parameter for name, parameter in found.items() if name != "constants"}


def _values(parameters: Mapping[str, Any], name: str, incomplete: str) -> list[str]:
    """The default of a parameter, or what else there is where these are few; of sizes some that many have."""
    from ....tensor.dtype import DTYPES

    parameter = parameters.get(name)
    if parameter is None:
        return []
    default = parameter.default
    if isinstance(default, bool):
        found = ["true", "false"]
    elif name == "dtype":
        found = list(DTYPES)
    else:
        found = list(_SIZES) if str(parameter.annotation).startswith("Size") else []
        found = found if default is parameter.empty or default is None else [str(default)]
    return [value for value in found if value.startswith(incomplete)]


def complete_record(incomplete: str) -> list[str]:
    """The numbers of the best records of each task."""
    found: list[str] = []
    with suppress(Exception), _database() as database:
        for task in database.tasks():
            found += [str(record.id) for record in database.best(task.key, _RECORDS)]
    return [number for number in found if number.startswith(incomplete)]


def complete_explained(incomplete: str) -> list[str]:
    """Adds to `complete_record` the operators and the files of programs and models."""
    return [*complete_record(incomplete), *complete_what(incomplete)]


def complete_compared(incomplete: str) -> list[str]:
    """The numbers of records, behind a colon their stages, and logs."""
    number, colon, begun = incomplete.partition(":")
    if colon:
        from ....runtime.kernel import STAGES

        return [f"{number}:{stage}" for stage in STAGES if stage.startswith(begun)]
    return [*complete_record(incomplete), *_files(incomplete, _LOGS)]


def complete_target(incomplete: str) -> list[str]:
    """The levels of each kind of target."""
    from ....targets.isa import BACKENDS

    names = ["host", *(f"{kind}:{level.name}" for kind, backend in BACKENDS.items() for level in backend.levels)]
    return [name for name in names if name.startswith(incomplete)]


def complete_strategy(incomplete: str) -> list[str]:
    """The strategies by name."""
    from ...search.strategy import STRATEGIES

    return [name for name in STRATEGIES if name.startswith(incomplete)]


def complete_peers(incomplete: str) -> list[str]:
    """The peers of `tune bench`, after those that stand before the last comma."""
    from ...bench.libraries import LIBRARIES

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in LIBRARIES if name.startswith(last) and name not in before.split(",")]


def _tasks(incomplete: str) -> list[tuple[str, str]]:
    with suppress(Exception), _database() as database:
        tasks = [task for task in database.tasks() if task.key.startswith(incomplete)]
        return [(task.key[:8], " ".join(task.display.split())[:60]) for task in tasks]
    return []


def _database() -> Any:
    from ....common.settings import DATABASE
    from ...records.database import Database

    return Database(DATABASE.value(), read_only=True)


def _files(incomplete: str, endings: Sequence[str] = _FILES) -> list[str]:
    """Files of programs and models, or with other endings, and the folders on the way to them."""
    with suppress(OSError):
        folder, begin = (
            (Path(incomplete), "") if incomplete.endswith("/") else (Path(incomplete).parent, Path(incomplete).name)
        )
        found = sorted(
            path for path in folder.iterdir() if path.name.startswith(begin) and not path.name.startswith(".")
        )
        shown = [f"{path}/" for path in found if path.is_dir() and begin] + [
            str(p) for p in found if p.suffix in endings
        ]
        return shown if incomplete else [name for name in shown if not name.endswith("/")]
    return []
