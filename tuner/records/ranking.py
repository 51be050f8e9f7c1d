"""The order of records: which candidate is the best, and which was found out to be wrong."""

from __future__ import annotations

from collections.abc import Sequence

from ...measure.result import Purpose, Status
from .data import Record, Trial


def rank(records: Sequence[Record]) -> list[Record]:
    """One record for each successful candidate, best first.

    What was chosen inside of a model comes first, the latest choice before all. A confirmed time was taken interleaved with
    its rivals', a searched one alone: so confirmed candidates are ordered by their confirmed times, and an unconfirmed one
    stands before them only if its searched time beats all of theirs. What gave a wrong result in a confirmation, which checks
    more than a trial does, or crashed there, is not successful, whatever the trial said.
    """
    found_out = {_as_built(record) for record in records if is_found_out(record.trial)}
    searched: dict[tuple[str, str], Record] = {}
    confirmed: dict[tuple[str, str], Record] = {}
    in_model: dict[tuple[str, str], Record] = {}
    places = {Purpose.CONFIRM: confirmed, Purpose.MODEL: in_model}
    for record in records:
        measured = record.trial.measurement
        if measured.ok and not measured.abandoned and _as_built(record) not in found_out:
            best = places.get(record.trial.purpose, searched)
            place = (record.trial.sketch, record.trial.config)
            if place not in best or record.seconds < best[place].seconds:
                best[place] = record
    to_beat = min((searched[p].seconds if p in searched else r.seconds for p, r in confirmed.items()), default=0.0)
    open_ones = sorted((r for p, r in searched.items() if p not in confirmed), key=lambda r: (r.seconds, r.id))
    faster = [r for r in open_ones if r.seconds < to_beat]
    alone = faster + sorted(confirmed.values(), key=lambda r: (r.seconds, r.id)) + open_ones[len(faster) :]
    first = sorted(in_model.values(), key=lambda r: (-r.trial.created, r.id))
    return first + [r for r in alone if (r.trial.sketch, r.trial.config) not in in_model]


def is_found_out(trial: Trial) -> bool:
    """Says whether a confirmation found a candidate to be wrong that had passed as a trial."""
    status = trial.measurement.status
    return trial.purpose is Purpose.CONFIRM and status in (Status.WRONG_RESULT, Status.CRASH)


def _as_built(record: Record) -> tuple[str, str, str]:
    """A candidate as one builder compiles it."""
    return record.trial.sketch, record.trial.config, record.trial.measurement.builder
