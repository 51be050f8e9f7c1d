"""What others have told: tasks that this version does not understand, and times that no machine of that kind could reach.

A database or a log may come from anybody. What cannot be read is passed over; an impossible time is kept, and never leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from ...common.errors import TilesmithError
from ...measure.machine import identity_for, machine_key
from ...measure.result import Failure, Measurement, Status
from ...targets.ceilings import Ceilings, default_ceilings
from ...targets.target import Target, parse_target
from ...tensor.text.parse import parse
from .data import Machine, Record, TaskIdentity
from .database import Database

BEYOND = 16.0  # times the figures of a target that a calibration may claim: fast memory, a high clock, a matrix unit

known_program = lru_cache(maxsize=1024)(parse)  # a list of tasks reads each several times


def understood(tasks: Iterable[TaskIdentity]) -> list[TaskIdentity]:
    """The tasks whose programs and targets this version can read."""
    return [task for task in tasks if _is_read(task.program) and _is_read(task.display) and _is_target(task.target)]


@lru_cache(maxsize=1024)
def _is_read(program: str) -> bool:
    try:
        known_program(program)
    except TilesmithError:
        return False
    return True


@lru_cache(maxsize=64)
def _is_target(text: str) -> bool:
    try:
        parse_target(text)
    except TilesmithError:
        return False
    return True


def believed(measurement: Measurement, task: TaskIdentity, machine: Machine) -> Measurement:
    """The measurement; `unstable`, with the reason, where its time is beyond the ceilings of its machine."""
    from ...measure.timing.plausible import too_fast  # here and below: a list of tasks needs none of it

    if not measurement.ok:
        return measurement
    why = too_fast(known_program(task.program), measurement.seconds, _ceilings(task.target, task.threads, machine))
    if why is None:
        return measurement
    return replace(measurement, status=Status.UNSTABLE, failure=Failure("time", why))


def _ceilings(target: str, threads: int, machine: Machine) -> Ceilings:
    """Returns what the machine can do: of this one what was measured here, of another what it tells, within reason."""
    from ...measure.calibrate.calibrate import known_ceilings

    resolved = parse_target(target)
    if machine.key == machine_key(identity_for(resolved)):
        return known_ceilings(resolved, threads)  # read each time: they rise when a timer finds them too low
    return _told(resolved, threads, machine)


@lru_cache(maxsize=64)
def _told(resolved: Target, threads: int, machine: Machine) -> Ceilings:
    usual = default_ceilings(resolved, threads)
    return usual if not machine.ceilings else _within(told_ceilings(machine.ceilings, usual), usual)


def told_ceilings(text: str, usual: Ceilings) -> Ceilings:
    """The ceilings that a record comes with; what they lack, or cannot be read, is that of the target."""
    try:
        told = Ceilings.from_json(text)
    except (ValueError, TilesmithError):
        return usual
    return replace(told, flops={**usual.flops, **told.flops})


def _within(told: Ceilings, usual: Ceilings) -> Ceilings:
    """Figures that no calibration gave are cut."""
    fastest = BEYOND * max(speed for _, speed in usual.bandwidth)
    top = BEYOND * max(usual.flops.values())
    return replace(
        told,
        flops={name: min(speed, top) for name, speed in told.flops.items()},
        bandwidth=tuple((size, min(speed, fastest)) for size, speed in told.bandwidth),
    )


def ceilings_of(database: Database, record: Record, task: TaskIdentity) -> Ceilings:
    """The ceilings of the machine that the record comes from; the target's own numbers where it was never calibrated."""
    machine, usual = database.machine(record.trial.machine), default_ceilings(parse_target(task.target), task.threads)
    if machine is not None and machine.ceilings:
        ceilings = told_ceilings(machine.ceilings, usual)
        if ceilings.threads == task.threads:
            return ceilings
    return usual
