"""All about one record: what it computes and how, what was measured, what bounds it; and the same trial made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType

from ...codegen.backends.cpu import builder_version
from ...codegen.compile_time import compile_time
from ...codegen.pipeline import build
from ...common.errors import ArgumentError, ScheduleError
from ...cost_model.analytic import clock_of, memory_seconds, predict, resources
from ...cost_model.cpu.analysis import analyse
from ...measure.local import LocalRunner
from ...measure.result import Job, Measurement, Purpose
from ...schedules.loops import LoopTree
from ...schedules.names import person_names, with_names
from ...schedules.outline import outline
from ...schedules.task import normalised
from ...targets.ceilings import Ceilings
from ...targets.target import Target, check_runs_here, parse_target
from ...tensor.text.parse import parse
from ..apply.kernel_texts import machine_code
from ..display import config_text, task_title
from ..records.claims import ceilings_of
from ..records.data import Record, TaskIdentity
from ..records.database import Database
from ..roofline import program_work
from ..terminal import pairs
from ..units import size_text, time_text
from .named.known import record_sketch
from .reasons import RecordReasons
from .report import OneLineEach, table, titled

DIFFERS = 0.10  # times that are further apart than this are told


def explanation(database: Database, record: Record, task: TaskIdentity) -> RenderableType:
    """Everything that a database says about a record, for printing."""
    sketch, target = record_sketch(database, record), parse_target(task.target)
    ceilings = ceilings_of(database, record, task)
    about = (
        titled(f"record {record.id}: {task_title(task)}", task.display.strip()),
        titled("sketch", f"{sketch.title}   {sketch.key[:8]}"),
        titled("config", config_text(record.config) or "nothing is open"),
    )
    bounds = titled("bounds", pairs(_bounds(record, task, ceilings)))
    try:
        tree = sketch.apply(normalised(parse(task.program)), target, record.config)
    except ScheduleError as error:  # a record of another version: what was measured still stands
        refused = titled("outline", f"this version cannot make the loops of this record: {error.problem}")
        return Group(*about, refused, titled("measured", pairs(_measured(record))), bounds)
    predicted = float(predict(tree, target, task.threads, ceilings, 1)[0])
    names = person_names(parse(task.display), sketch).tensors
    steps = tuple(step.text() for step in sketch.steps)
    shown = with_names(outline(tree, steps=steps), parse(task.display), sketch)
    why = RecordReasons(database, record, task).lines() if record.trial.measurement.ok else []
    return Group(
        *about,
        titled("outline", OneLineEach(shown)),
        titled("measured", pairs({**_measured(record), "predicted": time_text(predicted)})),
        bounds,
        titled("where the time goes, by the analytic model", time_table(tree, target, task.threads, ceilings, names)),
        *([titled("why it is as fast as it is", "\n".join(f"* {line}" for line in why))] if why else []),
    )


def time_table(
    tree: LoopTree, target: Target, threads: int, ceilings: Ceilings, names: Mapping[str, str]
) -> RenderableType:
    """Returns what each stage keeps each part of the cores busy for, and what each nest moves into each cache, in seconds.

    `names`: what the person calls the tensors of the canonical form.
    """
    analysis = analyse(tree, target, threads)
    clock = clock_of(target, ceilings) * threads

    def named(stage: str) -> str:
        return names.get(stage, stage)

    computing = table("stage", ">arithmetic", ">loads", ">stores", ">instructions", ">chains", ">matrix unit")
    moving = table("nest", *(f">into L{level}" for level, _ in enumerate(analysis.caches, 1)))
    for nest in analysis.nests:
        for stage, work in nest.work:
            busy = [time_text(float(cycles) / clock) for cycles in resources(work, target)]
            computing.add_row(named(stage.definition.name), *busy)
        moved = zip(nest.moved, memory_seconds(nest, analysis, target, threads, ceilings), strict=True)
        moving.add_row(
            named(nest.root.definition.name),
            *(f"{size_text(float(amount.total))}, {time_text(float(seconds))}" for amount, seconds in moved),
        )
    return Group(computing, "", moving)


def compile_table(database: Database, record: Record, task: TaskIdentity, longest: int = 12) -> RenderableType:
    """Compiles a record's candidate again and tells where the time goes; `longest`: how many of LLVM's passes are named.

    ArgumentError for a record of a failure: what it failed of could happen in this process.
    """
    if not record.trial.measurement.ok:
        raise ArgumentError(f"the trial of record {record.id} failed", expected="a record of a kernel that ran")
    target = parse_target(task.target)
    found = compile_time(parse(task.program), record_sketch(database, record), record.config, target, task.threads)
    parts = table("part", ">time", ">share")
    for name, seconds in found.parts.items():
        parts.add_row(name, time_text(seconds), f"{seconds / found.total:.0%}")
    parts.add_row("all", time_text(found.total), "")
    whole = sum(found.passes.values())
    passes = table("LLVM pass", ">time", ">share")
    for name, seconds in list(found.passes.items())[:longest]:
        passes.add_row(name, time_text(seconds), f"{seconds / whole:.0%}")
    rest = list(found.passes.values())[longest:]
    passes.add_row(f"{len(rest)} others", time_text(sum(rest)), f"{sum(rest) / whole:.0%}")
    return Group(titled(f"compiling record {record.id}", parts), passes)


def code_text(database: Database, record: Record, task: TaskIdentity) -> str:
    """The code of a record's candidate, built again: assembly, or PTX and, where the tools are installed, SASS.

    ArgumentError for a record of a failure, as `compile_table`.
    """
    if not record.trial.measurement.ok:
        raise ArgumentError(f"the trial of record {record.id} failed", expected="a record of a kernel that ran")
    target = parse_target(task.target)
    texts = build(
        parse(task.program), record_sketch(database, record), record.config, target, task.threads, texts=True
    ).texts
    return machine_code(texts, target)


def _measured(record: Record) -> dict[str, str]:
    trial, m = record.trial, record.trial.measurement
    facts = {"status": f"{m.status}{' (dropped early: clearly slower than the best)' if m.abandoned else ''}"}
    if m.failure is not None:
        facts[f"failed in {m.failure.stage}"] = m.failure.message
    if m.times:
        facts["time"] = f"{time_text(m.seconds)}, median of {len(m.times)}"
        facts["spread"] = f"{time_text(min(m.times))} to {time_text(max(m.times))}"
    facts["spent"] = ", ".join(
        f"{name} {time_text(seconds)}"
        for name, seconds in (
            ("compile", m.compile_seconds),
            ("check", m.check_seconds),
            ("measure", m.measure_seconds),
        )
        if seconds
    )
    return facts | {
        "purpose": str(trial.purpose),
        "builder": m.builder,
        "device": m.device,
        "machine": trial.machine[:16],
    }


def _bounds(record: Record, task: TaskIdentity, ceilings: Ceilings) -> dict[str, str]:
    """Returns what no kernel can beat on that machine, beside what this one takes."""
    work = program_work(parse(task.display))
    arithmetic, memory = work.arithmetic_seconds(ceilings), work.memory_seconds(ceilings)
    fastest = sum(count / ceilings.highest(dtype) for dtype, count in work.operations)
    matrix = f", {time_text(fastest)} on the matrix unit if all are sums of products" if fastest < arithmetic else ""
    facts = {
        "arithmetic": f"{work.flops:,} operations need {time_text(arithmetic)}{matrix}" if work.flops else "none",
        "memory": f"{work.bytes:,} bytes need {time_text(memory)}",
    }
    if record.trial.measurement.ok:
        speed = work.speed(record.seconds, ceilings)
        facts["reached"] = f"{speed}, {speed.share:.1%} of {speed.of}"
    return facts


@dataclass(frozen=True, slots=True)
class Replay:
    """A trial made again: what to print, and whether it ended as the record says."""

    text: RenderableType
    agrees: bool


def replayed(database: Database, record: Record, task: TaskIdentity, seed: int | None = None) -> Replay:
    """Builds, checks and times a record's candidate again on this machine, on the data of a seed or on new ones. Errors:
    TargetError if it cannot run here."""
    check_runs_here(parse_target(task.target))
    found = database.sketch(record.trial.sketch)
    text = found.text if found is not None else ""
    job = Job(0, task.program, text, record.config, task.target, task.threads, Purpose.CONFIRM, cold=task.in_model)
    with LocalRunner(task.target, task.threads, builders=1, seed=seed) as runner:
        ((_, again),) = runner.confirm([job])  # which checks all that it can
    before = record.trial.measurement
    facts = {"recorded": _outcome(before), "now": _outcome(again), "difference": difference(before, again)}
    if before.builder and before.builder != builder_version():
        facts["note"] = f"the record was built by {before.builder}, this is {builder_version()}"
    return Replay(titled(f"record {record.id}: {task_title(task)}", pairs(facts)), again.status is before.status)


def _outcome(m: Measurement) -> str:
    if m.ok:
        return f"ok, {time_text(m.seconds)}"
    return f"{m.status} in {m.failure.stage}: {m.failure.message}" if m.failure else str(m.status)


def difference(before: Measurement, again: Measurement) -> str:
    """Says in words whether two trials of one candidate differ: in how they ended, or by more than their spread and 10%."""
    if before.status is not again.status:
        return f"it ended as {before.status} and now ends as {again.status}"
    if not (before.ok and before.times and again.times):
        return "none: it ends in the same way"
    change = again.seconds / before.seconds - 1
    overlap = min(again.times) <= max(before.times) and min(before.times) <= max(again.times)
    word = "slower" if change > 0 else "faster"
    if overlap or abs(change) <= DIFFERS:
        return f"none to speak of ({abs(change):.1%} {word})"
    return f"now {abs(change):.1%} {word}"
