"""compile(program): the best candidate that is known, by tiers, as a callable kernel.

    exact      a record of this task: same program, target and threads
    near       a record of the same program on another target or another number of threads: its config, built again
    family     a record of the nearest other shape of the same family: its config, moved into this shape's domains
    analytic   no record: the best of a large draft by the analytic model
    default    the rules or the code generator failed, which is a defect of theirs: the unscheduled nest, with a warning

Each tier asks the person's database (or log) first, then the logs shipped with the project (sources.py). A config may
serve elsewhere; a time never does. Whatever a lower tier offers is validated first, and the kernel says which tier served
it (`kernel.provenance`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import numpy as np

from ..codegen.artifact import Artifact, BufferSpec
from ..codegen.cache import ArtifactCache, artifact_key
from ..codegen.cpu import builder_version
from ..codegen.pipeline import build, kernel_name
from ..codegen.sass import sass
from ..common.debug import Level, wanted
from ..common.errors import InternalError, NoRecordError, ScheduleError, TemplateError, TilesmithError
from ..common.settings import CACHE, DATABASE
from ..measure.calibrate import known_ceilings
from ..measure.machine import identity_for, machine_key
from ..runtime.devices.choose import device_or_absent
from ..runtime.kernel import Kernel
from ..schedules.sketch import UNSCHEDULED, Sketch, broken_conditions, parse_sketch
from ..schedules.space import Candidate, Parameter, Value
from ..schedules.space_ops import population
from ..schedules.task import Task
from ..targets.host import thread_count
from ..targets.target import Target, check_runs_here, parse_target
from ..tensor.accuracy import Accuracy, accuracy_named
from ..tensor.program import Program
from ..tensor.text import canonical_names, family_key, parse, print_program, program_key
from .database import Database
from .effort import UNTUNED
from .records import Record, TaskIdentity, canonical_config
from .search.draft import first_choice
from .sources import sources
from .task_space import TaskSpace
from .units import time_text

DRAFT_SEED = 0
NEAR_RECORDS = 8  # of a task of the same program: those that are not valid here are passed over
MOVES = 2000  # configs around one of another shape that are looked at
FAMILY_REACH = log(64)  # a shape that is further away (`shape_distance`) says less than the analytic model
FAMILY_RECORDS = 4  # of the nearest shape: the analytic model chooses among them


_UNRECORDED = {"analytic": "analytic model", "default": "unscheduled nest"}


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the configuration of a kernel comes from."""

    tier: str  # exact, near, family, analytic, default
    record: int | None  # its number in the database
    sketch: str
    config: Mapping[str, Value]
    seconds: float | None  # as measured on this machine by this version; only of the tier exact
    note: str = ""
    log: str = ""  # the log that the record comes from, if it is none of the database
    accuracy: Accuracy = "default"  # what the kernel may do to the program's arithmetic (docs/accuracy.md)

    def __str__(self) -> str:
        source = f"record {self.record}" if self.record is not None else _UNRECORDED[self.tier]
        source += f" of {self.log}" if self.log else ""
        time = f", {time_text(self.seconds)} when tuned" if self.seconds is not None else ""
        strict = f", {self.accuracy} accuracy" if self.accuracy != "default" else ""
        return f"{self.tier}: {source}{time}{f' ({self.note})' if self.note else ''}{strict}"


@dataclass(frozen=True, slots=True)
class Pick:
    """A candidate that will be compiled."""

    sketch: Sketch
    config: Mapping[str, Value]
    provenance: Provenance


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
    try:
        return kernel_of(program, task, best_pick(task, db, strict=strict), constants)
    except (InternalError, ScheduleError, TemplateError) as error:
        if strict:
            raise
        warnings.warn(f"the program runs unscheduled, slowly: {error.problem}; please report it", stacklevel=2)
        return kernel_of(program, task, default_pick(error), constants)


def kernel_of(
    program: Program,
    task: Task,
    pick: Pick,
    constants: Sequence[object] | Mapping[str, object] | None = None,
) -> Kernel:
    """A candidate as a kernel that knows the person's names."""

    def texts() -> Artifact:
        return build(task.program, pick.sketch, pick.config, task.target, task.threads, texts=True)

    def text(stage: str) -> str:
        if stage == "program":
            return print_program(program)
        if stage == "sketch":
            return pick.sketch.text
        if stage == "sass":
            return machine_code(texts().texts["ptx"], task.target)
        return texts().texts[stage]

    artifact = _with_names(_built(task, pick), program)
    device = device_or_absent(artifact)
    provenance = replace(pick.provenance, accuracy=task.accuracy)
    return Kernel(artifact, constants, provenance=provenance, texts=text, device=device)


def default_pick(error: TilesmithError) -> Pick:
    """What serves every program: nests as they stand in it."""
    note = f"the rules or the code generator failed: {error.problem}"
    return Pick(UNSCHEDULED, {}, Provenance("default", None, UNSCHEDULED.title, {}, None, note))


def machine_code(ptx: str, target: Target) -> str:
    """SASS, or a line that says what is missing to show it."""
    return sass(ptx, target.cpu) or "# SASS: ptxas and nvdisasm are not installed (pip install nvidia-cuda-nvdisasm)\n"


def _built(task: Task, pick: Pick) -> Artifact:
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


def best_pick(task: Task, db: str | Path | None = None, *, strict: bool = False) -> Pick:
    """The best candidate that is known for a task; see the head of this file. NoRecordError: strict and none exact."""
    with ExitStack() as stack:
        opened = [(stack.enter_context(Database(s.path, read_only=True)), s.log) for s in sources(db)]
        for tier in (_exact,) if strict else (_exact, _near, _family):
            for database, log in opened:
                found = tier(task, database)
                if found is not None:
                    return replace(found, provenance=replace(found.provenance, log=log))
    if strict:
        raise NoRecordError(
            "there is no record of exactly this program, target and number of threads",
            expected=f"a tuned task {task.key[:12]} in {db or DATABASE.value()}",
            advice="tune it first, or compile without strict=True",
        )
    return analytic_pick(task)


def _exact(task: Task, database: Database) -> Pick | None:
    """The task's best record: of this machine and this version's builder, else of this machine, else of any."""
    here, builder = machine_key(identity_for(task.target)), builder_version()
    for machine, built_by in ((here, builder), (here, None), (None, None)):
        for record in database.best(task.key, 8, machine=machine, builder=built_by):
            comparable = built_by is not None
            note = "" if comparable else f"measured elsewhere or by another version: {record.trial.measurement.builder}"
            found = _from_record(task, database, record, "exact", note, timed=comparable)
            if found is not None:
                return found
    return None


def _near(task: Task, database: Database) -> Pick | None:
    """The best record of the nearest task of this program. Times are compared inside of a task, never between two."""
    for other in sorted(database.program_tasks(program_key(task.program)), key=lambda other: _farness(task, other)):
        note = f"tuned for {other.target.partition(';')[0]}, threads={other.threads}"
        for record in database.best(other.key, NEAR_RECORDS):
            found = _from_record(task, database, record, "near", note)
            if found is not None:
                return found
    return None


def _farness(task: Task, other: TaskIdentity) -> tuple[bool, bool, float, bool, str]:
    """Orders other tasks of a program: the same target first, then the same kind, the number of threads, and the accuracy."""
    kind, name = task.target.text.partition(":")[0], task.target.text
    threads = abs(log(other.threads / task.threads))
    return (
        other.target != name,
        other.target.partition(":")[0] != kind,
        threads,
        other.accuracy != task.accuracy,
        other.key,
    )


def _from_record(
    task: Task, database: Database, record: Record, tier: str, note: str = "", *, timed: bool = False
) -> Pick | None:
    """A record's candidate, if it is valid for the task. `timed`: its time holds for what is compiled here and now."""
    sketch = _stored_sketch(task, database, record.trial.sketch)
    if sketch is None:
        return None
    try:
        tree = sketch.apply(task.body, task.target, record.config)
    except TilesmithError:
        return None
    if broken_conditions(tree):
        return None
    seconds = record.seconds if timed else None
    return Pick(sketch, record.config, Provenance(tier, record.id, sketch.title, record.config, seconds, note))


def _stored_sketch(task: Task, database: Database, key: str) -> Sketch | None:
    """The sketch of a record; None where it is not known, or does more than the task's accuracy allows."""
    if not key:
        return UNSCHEDULED
    stored = database.sketch(key)
    if stored is None:
        return None
    sketch = parse_sketch(stored.text) if stored.text else UNSCHEDULED
    return sketch if sketch.keeps(task.accuracy) else None


def _family(task: Task, database: Database) -> Pick | None:
    """The nearest shape's best configs, moved into this shape's domains; the analytic model chooses among them."""
    tasks = [t for t in database.family_tasks(family_key(task.program)) if t.key != task.key]
    near = sorted((shape_distance(task.program, parse(t.program)), t.key, t) for t in tasks)
    for distance, _, other in near:
        if distance > FAMILY_REACH:
            break
        picks: list[tuple[float, Pick]] = []
        for record in database.best(other.key, FAMILY_RECORDS):
            sketch = _stored_sketch(task, database, record.trial.sketch)
            if sketch is None:
                continue
            moved = moved_config(task, sketch, record.config)
            if moved is not None:
                config, seconds = moved
                note = f"from {', '.join(_sizes(parse(other.program)))}"
                picks.append(
                    (seconds, Pick(sketch, config, Provenance("family", record.id, sketch.title, config, None, note)))
                )
        if picks:
            return min(picks, key=lambda p: p[0])[1]
    return None


def moved_config(task: Task, sketch: Sketch, config: Mapping[str, Value]) -> tuple[dict[str, Value], float] | None:
    """The valid config of this task that is nearest to one of another shape, and its predicted seconds.

    Each value moves to the nearest one of its domain. Where that is not valid (8 blocks of 7 tiles), values a few places
    further are taken: as few places in all as possible, and the fastest of those by the analytic model. None if the
    sketch does not fit the task, or nothing near is valid.
    """
    try:
        space = TaskSpace(task, known_ceilings(task.target, task.threads), (sketch,))
        places = [_by_nearness(parameter, config[parameter.name]) for parameter in space.arms[0].parameters]
        draws = np.random.default_rng(DRAFT_SEED).geometric(0.7, (MOVES, len(places))) - 1
        draws[0] = 0
        steps = np.unique(np.minimum(draws, [len(place) - 1 for place in places]), axis=0).astype(np.int64)
        choices = [tuple(int(place[n]) for place, n in zip(places, row, strict=True)) for row in steps]
        moved = [Candidate(0, choice) for choice in choices]
        everything = population(0, moved, len(places))
        valid = space.valid(everything)
        if not valid.any():
            return None
        seconds, distance = space.prior(everything), steps.sum(axis=1)
        best = int(np.lexsort((seconds, distance, ~valid))[0])
        return space.config(moved[best]), float(seconds[best])
    except (TilesmithError, KeyError, ValueError):
        return None


def _by_nearness(parameter: Parameter, wanted: Value) -> list[int]:
    """Positions in a domain, the nearest value first. Of what has no order, only the same value is near."""
    values = parameter.values
    if not parameter.ordered:
        return [values.index(wanted)]
    return sorted(range(len(values)), key=lambda n: abs(float(values[n]) - float(wanted)))


def _sizes(program: Program) -> list[str]:
    return ["x".join(str(a.extent) for a in s.all_axes) for s in program.stages]


def shape_distance(a: Program, b: Program) -> float:
    """How far two shapes of a family are apart: the sum of the logarithms of the ratios of their extents."""
    ours = [axis.extent for stage in a.stages for axis in stage.all_axes]
    theirs = [axis.extent for stage in b.stages for axis in stage.all_axes]
    if len(ours) != len(theirs):
        return float("inf")
    return sum(abs(log(x / y)) for x, y in zip(ours, theirs, strict=True))


def analytic_pick(task: Task) -> Pick:
    """The best of a large draft by the analytic model: no measurement, no record."""
    space = TaskSpace(task, known_ceilings(task.target, task.threads))
    candidate = first_choice(space, np.random.default_rng(DRAFT_SEED), UNTUNED)
    sketch, config = space.sketches[candidate.arm], space.config(candidate)
    return Pick(sketch, config, Provenance("analytic", None, sketch.title, config, None))
