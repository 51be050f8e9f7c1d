"""All that a page tells of one task, as data: its trials, what the model says of them, the roof, failures, the winner."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from ...common.errors import TilesmithError
from ...measure.result import Purpose
from ...schedules.names import with_names
from ...schedules.outline import outline
from ...schedules.sketch import UNSCHEDULED, Sketch, parse_sketch
from ...schedules.task import normalised
from ...targets.ceilings import Ceilings
from ...targets.target import parse_target
from ...tensor.text.parse import parse
from ..display import config_text, place_text, program_title
from ..failures import reasons
from ..outcome import Spent
from ..records.claims import ceilings_of
from ..records.data import Record, TaskIdentity
from ..records.database import Database
from ..records.ranking import rank
from ..roofline import program_work
from ..search.rounds import Round
from .modelled import Setting, modelled
from .roof import Roof, roof_of
from .trials import SketchNames, TrialColumns, columns_of

UNKNOWN = "a sketch that this version cannot read"


@dataclass(frozen=True, slots=True)
class ShownFailure:
    """Trials that failed alike, with the command that shows one again."""

    status: str
    stage: str
    message: str
    count: int
    command: str


@dataclass(frozen=True, slots=True)
class ShownRun:
    """One search. `spent`: seconds; those of compiling and checking are of processors and may overlap."""

    started: float
    state: str
    trials: int
    wall: float
    compile: float
    check: float
    measure: float


@dataclass(frozen=True, slots=True)
class Winner:
    """The best record: what is told of it, and its texts. `outline` is empty where this version cannot make its loops."""

    id: int
    seconds: float
    spread: list[float]
    sketch: str
    config: str
    outline: str
    builder: str
    device: str


@dataclass(frozen=True, slots=True)
class ShownTask:
    """One task of a page.

    unit, amount: speed in this unit is `amount` over seconds; ceiling: the speed that this machine reaches, `of` in words.
    emulated: times are those of an emulator, which say nothing of a device.
    """

    key: str
    title: str
    place: str
    program: str
    unit: str
    amount: float
    ceiling: float
    of: str
    emulated: bool
    roof: Roof
    statuses: list[str]
    sketches: list[SketchNames]
    trials: TrialColumns
    best: Winner | None
    failures: list[ShownFailure]
    rounds: list[dict[str, object]]
    runs: list[ShownRun]


def shown_task(database: Database, task: TaskIdentity) -> ShownTask:
    """Returns all that a page tells of a task."""
    records = database.records(task.key)
    program, target = parse(task.display), parse_target(task.target)
    sketches = {key: sketch_of(database, key) for key in dict.fromkeys(record.trial.sketch for record in records)}
    known = {key: sketch for key, sketch in sketches.items() if sketch is not None}
    ranked = rank(records)
    ceilings = ceilings_of(database, (ranked or records)[0], task)
    work = program_work(program)
    speed = work.speed(1.0, ceilings)
    setting = Setting(parse(task.program), target, task.threads, ceilings)
    named = [_names(key, sketch, records) for key, sketch in sketches.items()]
    statuses = list(dict.fromkeys(str(record.trial.measurement.status) for record in records))
    runs = database.runs(task.key)
    columns = columns_of(records, runs, named, statuses, modelled(records, known, setting))
    return ShownTask(
        key=task.key, title=program_title(task.display), place=place_text(task), program=task.display.strip(),
        unit=speed.unit, amount=speed.value, ceiling=speed.value / speed.share if speed.share else 0.0, of=speed.of,
        emulated=target.is_emulator, roof=roof_of(work, target, task.threads, ceilings), statuses=statuses,
        sketches=named, trials=columns, best=_winner(task, ranked[0], known, ceilings) if ranked else None,
        failures=_failures(records, database), rounds=_rounds(database, [run.id for run in runs]),
        runs=[
            _shown_run(run.started, run.state, run.spent, [r for r in records if r.trial.run == run.id])
            for run in sorted(runs, key=lambda one: one.started)
        ],
    )  # fmt: skip


def sketch_of(database: Database, key: str) -> Sketch | None:
    """The sketch of a key; None for one that this version cannot read."""
    found = database.sketch(key)
    if found is None or not found.text:
        return UNSCHEDULED
    try:
        return parse_sketch(found.text)
    except TilesmithError:
        return None


def _names(key: str, sketch: Sketch | None, records: Sequence[Record]) -> SketchNames:
    names = dict.fromkeys(name for record in records if record.trial.sketch == key for name in record.config)
    title = UNKNOWN if sketch is None else sketch.title if sketch.steps else "unscheduled nest"
    return SketchNames(key, title, list(names))


def _winner(task: TaskIdentity, best: Record, sketches: dict[str, Sketch], ceilings: Ceilings) -> Winner:
    measured, sketch = best.trial.measurement, sketches.get(best.trial.sketch)
    shown = ""
    if sketch is not None:
        with suppress(TilesmithError):
            tree = sketch.apply(normalised(parse(task.program)), parse_target(task.target), best.config)
            shown = outline(tree, steps=tuple(step.text() for step in sketch.steps))
            shown = with_names(shown, parse(task.display), sketch)
    return Winner(
        best.id, best.seconds, [min(measured.times), max(measured.times)], UNKNOWN if sketch is None else sketch.title,
        config_text(best.config), shown, measured.builder, measured.device,
    )  # fmt: skip


def _failures(records: Sequence[Record], database: Database) -> list[ShownFailure]:
    return [
        ShownFailure(
            str(one.status), one.stage, one.message, len(one.records), one.command(database.path).partition(" --db")[0]
        )
        for one in reasons(records)
    ]


def _rounds(database: Database, runs: Sequence[str]) -> list[dict[str, object]]:
    """Returns what the learned model said of each batch of the last run that has any."""
    for run in runs:
        found = []
        for text in database.rounds(run):
            with suppress(ValueError, RecursionError):  # what is no round of this version is not shown
                found.append(asdict(Round.from_json(text)))
        if found:
            return found
    return []


def _shown_run(started: float, state: str, spent: float, records: Sequence[Record]) -> ShownRun:
    wall = max([spent, *(record.trial.elapsed for record in records)])
    parts = Spent.on(records, wall, 0.0)
    trials = sum(record.trial.purpose is Purpose.SEARCH for record in records)
    return ShownRun(started, state, trials, wall, parts.compile, parts.check, parts.measure)
