"""compile(program): the best candidate that is known, by tiers, as a callable kernel.

tiers.py says what may serve, in which order. The first that can be built does: what cannot gives way to the next record, and
then to the next tier. At the end of the chain stands the unscheduled nest, with a warning that lists all that failed: that
is a defect of the rules or of the code generator. The kernel says which tier served it (`kernel.provenance`).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ...codegen.artifact import Artifact, BufferSpec
from ...codegen.backends.cpu import builder_version
from ...codegen.cache import ArtifactCache, artifact_key
from ...codegen.pipeline import build, kernel_name
from ...common.debug import Level, wanted
from ...common.settings import CACHE
from ...runtime.devices.choose import device_or_absent
from ...runtime.kernel import Kernel
from ...schedules.sketch import UNSCHEDULED
from ...schedules.task import Task
from ...targets.host import thread_count
from ...targets.target import Target, check_runs_here, parse_target
from ...tensor.accuracy import Accuracy, accuracy_named
from ...tensor.program import Program
from ...tensor.text.canonical import canonical_names
from ..records.data import canonical_config
from .kernel_texts import KernelTexts
from .pick import Pick, Provenance
from .strict import no_record
from .tiers import Failed, picks

FAILURES = 8  # of a tier: candidates that do not build, until the next tier is asked


def compile(
    program: Program,
    *,
    target: str | Target = "host",
    db: str | Path | None = None,
    threads: int | None = None,
    constants: Sequence[object] | Mapping[str, object] | None = None,
    strict: bool = False,
    accuracy: Accuracy = "default",
) -> Kernel:
    """The kernel of a program, with the best configuration that is known for it.

    Args:
        db: the tuning database, or a log of records (.jsonl); by default the database of the settings. A missing one is
            an empty one.
        threads: how many threads it uses; by default all cores of the target.
        constants: values of the program's constants, in its order or by name.
        strict: refuse anything but a record of exactly this task.
        accuracy: "strict" refuses kernels that do more than the program's sums in another order (docs/accuracy.md).

    Raises:
        NoRecordError: strict, and there is no such record.
        TargetError, ArgumentError, DatabaseError: as their messages say.
    """
    resolved = parse_target(target) if isinstance(target, str) else target
    if resolved.kind != "cuda":  # what a GPU runs can be looked at anywhere
        check_runs_here(resolved)
    task = Task.of(program, resolved, thread_count(threads, resolved), accuracy_named(accuracy))
    pick, artifact = first_built(task, db, strict=strict)
    return kernel_of(program, task, pick, artifact, constants)


def first_built(task: Task, db: str | Path | None, *, strict: bool) -> tuple[Pick, Artifact]:
    """The first candidate of all tiers that can be built. Errors: NoRecordError, or what a strict one's build failed with."""
    failed: Failed = []
    tries = Counter[str]()
    with closing(picks(task, db, strict=strict, failed=failed)) as offered:
        for pick in offered:
            tier = pick.provenance.tier
            if tries[tier] < FAILURES:
                try:
                    return pick.noting(_words(failed)) if failed else pick, built(task, pick)
                except Exception as error:  # whatever it is costs this candidate alone
                    tries[tier] += 1
                    failed.append((f"{tier} {pick.provenance.source}", error))
    if strict and failed:
        raise failed[0][1]
    if strict:
        raise no_record(task, db)
    warnings.warn(f"the program runs unscheduled, slowly: {_words(failed)}; please report it", stacklevel=3)
    pick = default_pick(_words(failed))
    return pick, built(task, pick)


def _words(failed: Failed) -> str:
    """What did not build, for people."""
    said = [f"{what} failed: {getattr(e, 'problem', '') or f'{type(e).__name__}: {e}'}" for what, e in failed]
    return "; ".join(said)


def kernel_of(
    program: Program,
    task: Task,
    pick: Pick,
    artifact: Artifact,
    constants: Sequence[object] | Mapping[str, object] | None = None,
) -> Kernel:
    """A candidate that was built, as a kernel that knows the person's names."""
    artifact = _with_names(artifact, program)
    device = device_or_absent(artifact)
    texts = KernelTexts(program, pick.sketch, pick.config, task.target, task.threads)
    provenance = replace(pick.provenance, accuracy=task.accuracy)
    return Kernel(artifact, constants, provenance=provenance, texts=texts, device=device)


def default_pick(note: str) -> Pick:
    """What serves every program: nests as they stand in it."""
    note = f"the rules or the code generator failed: {note}"
    return Pick(UNSCHEDULED, {}, Provenance("default", None, UNSCHEDULED.title, {}, None, note))


def built(task: Task, pick: Pick) -> Artifact:
    """The artifact of a pick: from the cache, if it was built before and nobody wants to see how it is built."""
    cache = ArtifactCache(CACHE.value() / "artifacts")
    key = artifact_key(
        task.text,
        pick.sketch.text,
        canonical_config(pick.config),
        task.target.text,
        task.threads,
        f"{builder_version()}, {kernel_name(task.program)}",
    )
    found = None if wanted(Level.OUTLINE) else cache.get(key)
    if found is None:
        found = build(task.program, pick.sketch, pick.config, task.target, task.threads)
        cache.put(key, found)
    return found


def _with_names(artifact: Artifact, program: Program) -> Artifact:
    names = canonical_names(program)

    def renamed(specs: Iterable[BufferSpec]) -> tuple[BufferSpec, ...]:
        return tuple(replace(spec, name=names.get(spec.name, spec.name)) for spec in specs)

    return replace(
        artifact,
        inputs=renamed(artifact.inputs),
        constants=renamed(artifact.constants),
        outputs=renamed(artifact.outputs),
    )
