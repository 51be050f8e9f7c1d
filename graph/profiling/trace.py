"""A timeline in the trace event format of Chrome (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU),
which Perfetto and chrome://tracing open: kernels on one track, the modules that they are of on another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

KERNELS, MODULES, RUNS = 1, 2, 0  # the tracks
_NAMES = {RUNS: "runs", KERNELS: "kernels", MODULES: "modules"}


@dataclass(frozen=True, slots=True)
class Slice:
    """One call of a kernel on a timeline: seconds from the begin of the first run.

    path: the modules that it is of, the outermost first. facts: what is told where somebody selects it.
    """

    name: str
    start: float
    seconds: float
    path: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def end(self) -> float:
        """Returns the second at which it ends."""
        return self.start + self.seconds


def trace_text(model: str, runs: Sequence[Sequence[Slice]]) -> str:
    """Returns the JSON of some runs of a model, one behind the other."""
    events: list[dict[str, object]] = [_about("process_name", RUNS, model)]
    events += [_about("thread_name", track, name) for track, name in _NAMES.items()]
    for number, run in enumerate(runs):
        if run:
            events.append(_event(f"run {number}", RUNS, run[0].start, run[-1].end, {}))
        events += [_event(one.name, KERNELS, one.start, one.end, {**one.facts}) for one in run]
        events += [_event(name, MODULES, start, end, {}) for name, start, end in _modules(run)]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events})


def _modules(run: Iterable[Slice]) -> list[tuple[str, float, float]]:
    """Names the modules with begin and end: neighbouring calls of one are one slice, inside of that of the module around."""
    done: list[tuple[str, float, float]] = []
    opened: list[tuple[str, float]] = []
    end = 0.0
    for one in run:
        same = 0
        while same < min(len(opened), len(one.path)) and opened[same][0] == one.path[same]:
            same += 1
        done += [(name, start, end) for name, start in opened[same:]]
        opened = [*opened[:same], *((name, one.start) for name in one.path[same:])]
        end = one.end
    return done + [(name, start, end) for name, start in opened]


def _event(name: str, track: int, start: float, end: float, facts: dict[str, object]) -> dict[str, object]:
    """A slice. Microseconds, with three digits behind the point: nanoseconds are what clocks give."""
    event: dict[str, object] = {"ph": "X", "name": name, "pid": 1, "tid": track, "ts": round(start * 1e6, 3)}
    event["dur"] = round((end - start) * 1e6, 3)
    return event | ({"args": facts} if facts else {})


def _about(what: str, track: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": what, "pid": 1, "tid": track, "args": {"name": name}}
