"""What is measured of a kernel for its profile: the seconds of each of its calls in some runs, and hardware counters."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .devices.base import Array, LoadedKernel
from .devices.cpu.counters import HARDWARE, CountedEvent, Counters, CountersAbsent
from .devices.cpu.device import CpuKernel
from .devices.cpu.observed import ObservedKernel

RUNS = 10  # of a model, of which the first counts nothing
_COUNTED = 5  # runs whose counters are compared

Counts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class MeasuredRuns:
    """Seconds and counters of runs.

    Attributes:
        seconds: the median of each call, in order; of a model then of what is copied at the end.
        runs: the same of each run.
        counts: for each call what hardware counted of it, by the names of events; empty where there are no counters.
        absent: why there are none.
    """

    seconds: tuple[float, ...]
    runs: tuple[tuple[float, ...], ...] = ()
    counts: tuple[Counts, ...] = ()
    absent: str = ""


def medians(runs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Returns the median of each call over the runs."""
    return tuple(map(statistics.median, zip(*runs, strict=True)))


def counted_or_why(loaded: LoadedKernel, arrays: Sequence[Array]) -> tuple[tuple[Counts, ...], str]:
    """Returns what hardware counts of each call, or nothing and why there are no counters."""
    try:
        return counted(loaded, arrays), ""
    except CountersAbsent as error:
        return (), error.problem + (f" ({error.advice})" if error.advice else "")


def counted(
    loaded: LoadedKernel, arrays: Sequence[Array], events: Sequence[CountedEvent] = HARDWARE
) -> tuple[Counts, ...]:
    """Returns what is counted of each call in a run: of all threads, waiting ones included. Errors: CountersAbsent."""
    if not isinstance(loaded, CpuKernel):
        raise CountersAbsent("there are none of this device")
    calls = len(loaded.kernels and loaded.artifact.launches) or 1
    with Counters(2 * calls, events) as counters:
        observed = ObservedKernel(loaded, counters.address, counters.address)
        taken = []
        for _ in range(_COUNTED):
            observed.run(arrays)
            notes = counters.taken()
            taken.append([_difference(*notes[n : n + 2]) for n in range(0, len(notes), 2)])
    return tuple(
        {event.name: statistics.median(one[event.name] for one in call) for event in events}
        for call in zip(*taken, strict=True)
    )


def _difference(before: Counts, after: Counts) -> Counts:
    return {name: max(0.0, after[name] - value) for name, value in before.items()}
