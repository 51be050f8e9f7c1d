"""Where the time of a model goes, as people read it: one row for each call of a kernel, with the layers that it comes from.

It is a table (`str`), a timeline (`trace`), a flame graph (`folded`, `flame`), and data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from ...common.printable import printable
from ...runtime.profiled import MeasuredRuns
from ...tensor.program import Origin
from ..profiling.flame import flame_svg, folded_text
from ..profiling.trace import Slice, trace_text
from .provenance import CallOrigin

COPIES = "copies of results"
_TOLD = 0.001  # of the time: what copies take at least where they are told
_LAYERS = 3  # of one kernel that a table names


@dataclass(frozen=True, slots=True)
class Cost:
    """Holds what a kernel has to do, and what that takes at the ceilings of the machine.

    Attributes:
        operations: all of them, a multiply and an add being two.
        bytes: of what it reads and writes, each tensor once.
        least: seconds that its ceiling allows.
        bound: what that ceiling is of: "arithmetic", or where its bytes fit ("L2", "memory").
    """

    operations: int
    bytes: int
    least: float
    bound: str


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One call: its time, and its share of the whole run. `counts`: what hardware counted of it, by the names of events."""

    call: CallOrigin
    cost: Cost
    seconds: float
    share: float
    counts: Mapping[str, float] = field(default_factory=dict)

    @property
    def gflops(self) -> float:
        """Operations by the time, in 1e9 a second."""
        return self.cost.operations / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def of_ceiling(self) -> float:
        """1.0 is the ceiling itself. More is possible on a matrix unit, and where kernels before left the data near."""
        return self.cost.least / self.seconds if self.seconds else 0.0

    @property
    def layers(self) -> str:
        """Says where it comes from, in words."""
        return layers_text(self.call.origins)

    @property
    def source(self) -> str:
        """Says which line of the model it is of, `resnet.py:144`; of several the first. "" where nobody knows."""
        return next((f"{Path(one.file).name}:{one.line}" for one in self.call.origins if one.file and one.line), "")

    @property
    def path(self) -> tuple[str, ...]:
        """Returns the modules that it is of, the outermost first; the last are all of its layers."""
        found = _layer_names(self.call.origins)
        common = _common_module(found) if len(found) > 1 else found[0] if found else ""
        inner = [] if len(found) < 2 else [", ".join(_short(found, common))]
        return tuple(filter(None, [*common.split("."), *inner]))


def layers_text(origins: Iterable[Origin]) -> str:
    """The layers of stages, or else operators: `layer1.0: conv1, bn1, relu`; of many the first and the last."""
    found = _layer_names(origins)
    common = _common_module(found)
    short = _short(found, common)
    shown = short if len(short) <= _LAYERS else [short[0], "...", short[-1]]
    return (f"{common}: " if common else "") + ", ".join(shown)


def _layer_names(origins: Iterable[Origin]) -> list[str]:
    return list(dict.fromkeys(name for name in (one.layer or one.operator for one in origins) if name))


def _short(layers: Sequence[str], common: str) -> list[str]:
    return [name.removeprefix(f"{common}.") for name in layers]


def _common_module(layers: Sequence[str]) -> str:
    """The innermost module that all of several layers are in; "" for one layer."""
    if len(layers) < 2:
        return ""
    parts = [layer.split(".")[:-1] for layer in layers]
    return ".".join(one[0] for one in takewhile(lambda same: len(set(same)) == 1, zip(*parts, strict=False)))


@dataclass(frozen=True, slots=True)
class Profile:
    """The calls of a run in order, and the seconds of what is copied after them.

    runs: the seconds of each call in each run that was timed, and of the copies. absent: why hardware counted nothing.
    """

    rows: tuple[ProfileRow, ...]
    copies: float = 0.0
    name: str = "model"
    runs: tuple[tuple[float, ...], ...] = ()
    absent: str = ""

    @property
    def seconds(self) -> float:
        """Returns the seconds of the whole run."""
        return sum(row.seconds for row in self.rows) + self.copies

    @property
    def open(self) -> float:
        """Says how much of the run no ceiling accounts for, 0 to 1."""
        least = sum(min(row.cost.least, row.seconds) for row in self.rows)
        return 1.0 - least / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        return self.table()

    def table(self, limit: int | None = None) -> str:
        """A table, the slowest calls first. `limit`: so many of them, and the others in one line."""
        counts = any(row.counts for row in self.rows)
        head = f"{'share':>6} {'us':>9} {'GFLOP/s':>8} {'MB':>8} {'ceiling':>8} {'bound by':<10}"
        head += (f" {'IPC':>5} {'misses':>8}" if counts else "") + "  kernel (layers) line"
        slowest = sorted(self.rows, key=lambda row: -row.seconds)
        shown, others = slowest[:limit], slowest[len(slowest[:limit]) :]
        lines = [head, *(_line(row, counts) for row in shown)]
        if others:
            lines.append(self._part(sum(row.seconds for row in others), f"{len(others)} other calls"))
        if self.copies and self.copies / self.seconds >= _TOLD:
            lines.append(self._part(self.copies, COPIES))
        calls = f"{len(self.rows)} call{'' if len(self.rows) == 1 else 's'}"
        counters = f"; no hardware counters: {self.absent}" if self.absent else ""
        lines.append(self._part(self.seconds, f"{calls}, {self.open:.0%} of the time still open{counters}"))
        return printable("\n".join(lines))

    def _part(self, seconds: float, what: str) -> str:
        share = seconds / self.seconds if self.seconds else 1.0
        return f"{share:6.1%} {seconds * 1e6:9.1f}  {what}"

    def trace(self) -> str:
        """Returns the runs as a timeline, JSON that Perfetto and chrome://tracing open."""
        slices: list[list[Slice]] = []
        start = 0.0
        for run in self.runs or (tuple(row.seconds for row in self.rows),):
            slices.append([])
            for row, seconds in zip(self.rows, run, strict=False):
                slices[-1].append(Slice(row.call.name, start, seconds, row.path, _facts(row)))
                start += seconds
            for seconds in run[len(self.rows) :]:
                if seconds:
                    slices[-1].append(Slice(COPIES, start, seconds))
                start += seconds
        return trace_text(self.name, slices)

    def folded(self) -> str:
        """Returns stacks of modules and kernels with their nanoseconds, as flamegraph.pl and speedscope read them."""
        return folded_text(self._stacks())

    def flame(self) -> str:
        """Returns a flame graph by the path of modules, a picture (SVG)."""
        return flame_svg(self.name, {stack[1:]: seconds for stack, seconds in self._stacks().items()})

    def _stacks(self) -> dict[tuple[str, ...], float]:
        stacks: dict[tuple[str, ...], float] = {}
        for row in self.rows:
            stack = (self.name, *row.path, row.call.name)
            stacks[stack] = stacks.get(stack, 0.0) + row.seconds
        return stacks | ({(self.name, COPIES): self.copies} if self.copies else {})


def profile_of(
    calls: Sequence[CallOrigin], costs: Sequence[Cost], measured: MeasuredRuns, name: str = "model"
) -> Profile:
    """The profile of these calls. Where there is one second more than calls, it is of what is copied."""
    seconds = measured.seconds
    total = sum(seconds)
    counts = measured.counts or ({},) * len(calls)
    rows = tuple(
        ProfileRow(call, cost, spent, spent / total if total else 0.0, counted)
        for call, cost, spent, counted in zip(calls, costs, seconds, counts, strict=False)
    )
    return Profile(rows, sum(seconds[len(rows) :]), name, measured.runs, measured.absent)


def _line(row: ProfileRow, counts: bool) -> str:
    layers = f" ({row.layers})" if row.layers else ""
    source = f" {row.source}" if row.source else ""
    counted = ""
    if counts:
        cycles, instructions = row.counts.get("cycles", 0.0), row.counts.get("instructions", 0.0)
        counted = f" {instructions / max(cycles, 1.0):5.2f} {row.counts.get('cache misses', 0.0):8.0f}"
    return (
        f"{row.share:6.1%} {row.seconds * 1e6:9.1f} {row.gflops:8.1f} {row.cost.bytes / 1e6:8.2f} {row.of_ceiling:8.1%} "
        f"{row.cost.bound:<10}{counted}  {row.call.name}{layers}{source}"
    )


def _facts(row: ProfileRow) -> dict[str, object]:
    """Returns what is told of a call where somebody selects it in a timeline."""
    lines = [f"{one.layer or one.operator} {one.file}:{one.line}".strip() for one in row.call.origins if one.file]
    return {
        "layers": row.layers, "lines": lines, "GFLOP/s": round(row.gflops, 1), "bytes": row.cost.bytes,
        "of the ceiling": round(row.of_ceiling, 3), "bound by": row.cost.bound, **row.counts,
    }  # fmt: skip
