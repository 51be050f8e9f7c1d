"""Why trials failed: the commonest reasons first, each with a command that shows it again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from ..common.errors import SearchFailed
from ..common.settings import DATABASE
from ..measure.result import Status
from .records.data import Record

MESSAGE_WIDTH = 200


@dataclass(frozen=True, slots=True)
class Reason:
    """Trials that failed alike: in the same stage, with the same first line of the message."""

    status: Status
    stage: str
    message: str
    records: tuple[Record, ...]

    def command(self, database: Path) -> str:
        """Returns what to run to see it again; names the database only where it is not the settings' one."""
        place = "" if database.absolute() == DATABASE.value().absolute() else f" --db {quote(str(database))}"
        return f"tune replay {self.records[0].id}{place}"


def reasons(records: Iterable[Record]) -> list[Reason]:
    """All reasons among these records, the commonest first."""
    groups: dict[tuple[Status, str, str], list[Record]] = defaultdict(list)
    for record in records:
        measurement = record.trial.measurement
        if not measurement.ok:
            stage = measurement.failure.stage if measurement.failure else ""
            message = measurement.failure.message if measurement.failure else ""
            groups[measurement.status, stage, message.strip().partition("\n")[0][:MESSAGE_WIDTH]].append(record)
    found = [Reason(*key, tuple(group)) for key, group in groups.items()]
    return sorted(found, key=lambda reason: -len(reason.records))


def search_failed(title: str, records: Sequence[Record], database: Path) -> SearchFailed:
    """The error of a search in which nothing ran: the three commonest reasons, each with its command."""
    failed = [record for record in records if not record.trial.measurement.ok]
    lines = []
    for reason in reasons(failed)[:3]:
        share = f"{len(reason.records)} of {len(failed)}"
        lines.append(f"{share}: {reason.status} in {reason.stage or 'no stage'}: {reason.message}")
        lines.append(f"    to see it again: {reason.command(database)}")
    return SearchFailed(
        f"none of the {len(failed)} candidates of {title} could be used",
        where="\n".join(lines),
        advice="look at one with the command beside its reason; more trials may find one that works",
    )
