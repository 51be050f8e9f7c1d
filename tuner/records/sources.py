"""Where `compile` looks for records: in the person's database or log first, then in the logs shipped with the project.

A log (JSON lines) is turned into a database once, in the cache, under the hash of its bytes; from then on it is looked up
like any other.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from ...common.errors import ArgumentError, EnvironmentFailure, UserError
from ...common.given import file_place
from ...common.outside import let_through
from ...common.printable import printable
from ...common.private import is_private, make_private_folder
from ...common.settings import CACHE, DATABASE, SHIPPED
from ...targets.nearness import distance
from ...targets.target import Target, parse_target
from .database import Database
from .schema import VERSION

LOG_SUFFIX = ".jsonl"
_RECIPE = 1  # raise it when the same log makes another database, as after a change of a key's recipe


@dataclass(frozen=True, slots=True)
class Source:
    """A database to look in. `log`: the name of the log that it was made of, empty for the person's own database."""

    path: Path
    log: str = ""


def sources(db: str | Path | None = None, target: Target | None = None) -> tuple[Source, ...]:
    """Says where to look, in this order; what does not exist is left out.

    `db`: a database or a log (its name ends in .jsonl); by default the one of the settings. `target`: whom records are to
    serve: a shipped log of which none can do so is left out, as to read all of it takes a second. A log's wrong lines are
    skipped with a warning. ArgumentError, EnvironmentFailure: see `log_database`.
    """
    own = file_place(db, "the database") if db is not None else DATABASE.value()
    shipped = shipped_logs() if SHIPPED.value() else ()
    there = [
        place
        for place in (own, *(log for log in shipped if target is None or _may_serve(log, target)))
        if place.exists() and not _is_empty(place)
    ]
    return tuple(
        Source(log_database(place), place.name) if place.suffix == LOG_SUFFIX else Source(place) for place in there
    )


def _is_empty(place: Path) -> bool:
    """A file without a byte holds no records, be it a log or a database that nobody has written to."""
    return place.is_file() and place.stat().st_size == 0


def _may_serve(log: Path, target: Target) -> bool:
    """Says whether some line of a log was measured on a target near this one; of a log that cannot be read, that it may: who
    reads all of it tells what is wrong."""
    try:
        texts = _targets_of(log, log.stat().st_mtime_ns)
        return any(distance(parse_target(text), target) is not None for text in texts)
    except (OSError, ValueError, KeyError, TypeError, UserError) as error:
        let_through(error)
        return True


@lru_cache(maxsize=16)
def _targets_of(log: Path, changed: int) -> frozenset[str]:
    """The targets in a log, as it was at a time."""
    return frozenset(json.loads(line)["target"] for line in log.read_text(encoding="utf-8").splitlines())


def shipped_logs() -> tuple[Path, ...]:
    """The logs that are installed with the project."""
    folder = files(f"{__package__.partition('.')[0]}.logs")
    return tuple(sorted(Path(str(entry)) for entry in folder.iterdir() if entry.name.endswith(LOG_SUFFIX)))


def log_database(log: Path) -> Path:
    """The database made of a log; ArgumentError if it cannot be read, EnvironmentFailure if the cache cannot be written."""
    from .log import import_log

    if not log.is_file():
        raise ArgumentError("the log is no plain file", found=str(log), advice="`tune log import` reads pipes as well")
    text = log.read_bytes()
    key = hashlib.sha256(f"{_RECIPE} {VERSION} ".encode() + text).hexdigest()[:32]
    made = CACHE.value() / "logs" / f"{key}.sqlite"
    if is_private(made):
        return made
    try:
        make_private_folder(made.parent)
        with TemporaryDirectory(prefix=".making-", dir=made.parent) as folder:  # gone whatever happens inside
            beside = Path(folder) / made.name
            with Database(beside) as database:
                bad = import_log(log, database).bad
            beside.chmod(0o600)
            beside.replace(made)  # closed, so that nothing is left in a write-ahead log
    except OSError as error:
        let_through(error)
        raise EnvironmentFailure(
            "the log cannot be turned into a database in the cache",
            found=f"{made.parent}: {error.strerror}",
            advice=f"give another folder by {CACHE.name}",
        ) from error
    if bad:
        said = f"{len(bad)} lines of the log were skipped: {bad[0]}; `tune log check` lists all"
        warnings.warn(printable(said), stacklevel=2)
    return made
