"""The first candidate of a task that can be built: what cannot gives way to the next record, and then to the next tier."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path

from ...codegen.artifact import Artifact
from ...codegen.backends.cpu import builder_version
from ...codegen.cache import ArtifactCache, artifact_key
from ...codegen.debug_info.places import debug_key
from ...codegen.pipeline import build, kernel_name
from ...codegen.rows import ArgumentRows
from ...common.debug import DebugLevel, wanted
from ...common.outside import let_through
from ...common.settings import CACHE
from ...schedules.sketch import UNSCHEDULED
from ...schedules.task import Task
from ..records.data import canonical_config
from .pick import Pick, Provenance
from .strict import no_record
from .tiers import Failed, is_draft_known, picks

FAILURES = 8  # of a tier: candidates that do not build, until the next tier is asked


def first_built(task: Task, db: str | Path | None, *, strict: bool, rows: ArgumentRows = ()) -> tuple[Pick, Artifact]:
    """The first candidate of all tiers that can be built. `rows`: see `build`.

    Errors: NoRecordError, or what a strict one's build failed with.
    """
    failed: Failed = []
    tries = Counter[str]()
    with closing(picks(task, db, strict=strict, failed=failed)) as offered:
        for pick in offered:
            tier = pick.provenance.tier
            if tries[tier] < FAILURES:
                try:
                    return pick.noting(_words(failed)) if failed else pick, built(task, pick, rows)
                except Exception as error:  # whatever it is costs this candidate alone
                    let_through(error)
                    tries[tier] += 1
                    failed.append((f"{tier} {pick.provenance.source}", error))
    if strict and failed:
        raise failed[0][1]
    if strict:
        raise no_record(task, db)
    warnings.warn(f"the program runs unscheduled, slowly: {_words(failed)}; please report it", stacklevel=3)
    pick = default_pick(_words(failed))
    return pick, built(task, pick, rows)


def _words(failed: Failed) -> str:
    """Returns what did not build, for people."""
    said = [f"{what} failed: {getattr(e, 'problem', '') or f'{type(e).__name__}: {e}'}" for what, e in failed]
    return "; ".join(said)


def default_pick(note: str) -> Pick:
    """Returns what serves every program: nests as they stand in it."""
    note = f"the rules or the code generator failed: {note}"
    return Pick(UNSCHEDULED, {}, Provenance("default", None, UNSCHEDULED.title, {}, None, note))


def first_known(
    task: Task, db: str | Path | None, *, strict: bool, rows: ArgumentRows = ()
) -> tuple[Pick, Artifact] | None:
    """Works as `first_built`, where it takes neither a draft nor a build to say so; None elsewhere."""
    at_once = strict or not is_draft_known(task)  # what else may serve is compared with a draft
    with closing(picks(task, db, strict=at_once, failed=[])) as offered:
        pick = next(offered, None)
    found = None if pick is None else _cached(task, pick, rows)
    return None if pick is None or found is None else (pick, found)


def built(task: Task, pick: Pick, rows: ArgumentRows) -> Artifact:
    """The artifact of a pick: from the cache, if it was built before and nobody wants to see how it is built."""
    found = _cached(task, pick, rows)
    if found is None:
        found = build(task.program, pick.sketch, pick.config, task.target, task.threads, rows=rows)
        _cache().put(_key(task, pick, rows), found)
    return found


def _cached(task: Task, pick: Pick, rows: ArgumentRows) -> Artifact | None:
    return None if wanted(DebugLevel.OUTLINE) else _cache().get(_key(task, pick, rows))


def _cache() -> ArtifactCache:
    return ArtifactCache(CACHE.value() / "artifacts")


def _key(task: Task, pick: Pick, rows: ArgumentRows) -> str:
    return artifact_key(
        task.text,
        pick.sketch.text,
        canonical_config(pick.config),
        task.target.text,
        task.threads,
        rows,
        f"{builder_version()}, {kernel_name(task.program)}{debug_key(task.program)}",
    )
