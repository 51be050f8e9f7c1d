"""Where the time of a model goes, as people read it: one row for each call of a kernel, with the layers that it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ...common.printable import printable
from ...tensor.program import Origin
from .provenance import CallOrigin

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
    """One call: its time, and its share of the whole run."""

    call: CallOrigin
    cost: Cost
    seconds: float
    share: float

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


def layers_text(origins: Iterable[Origin]) -> str:
    """The layers of stages, or else operators: `layer1.0: conv1, bn1, relu`; of many the first and the last."""
    found = list(dict.fromkeys(name for name in (one.layer or one.operator for one in origins) if name))
    common = _common_module(found)
    short = [name.removeprefix(f"{common}.") for name in found]
    shown = short if len(short) <= _LAYERS else [short[0], "...", short[-1]]
    return (f"{common}: " if common else "") + ", ".join(shown)


def _common_module(layers: Sequence[str]) -> str:
    """The innermost module that all of several layers are in; "" for one layer."""
    if len(layers) < 2:
        return ""
    parts = [layer.split(".")[:-1] for layer in layers]
    return ".".join(one[0] for one in takewhile(lambda same: len(set(same)) == 1, zip(*parts, strict=False)))


@dataclass(frozen=True, slots=True)
class Profile:
    """The calls of a run in order, and the seconds of what is copied after them."""

    rows: tuple[ProfileRow, ...]
    copies: float = 0.0

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
        """A table, the slowest calls first."""
        head = f"{'share':>6} {'us':>9} {'GFLOP/s':>8} {'ceiling':>8} {'bound by':<10}  kernel (layers)"
        slowest = sorted(self.rows, key=lambda row: -row.seconds)
        calls = f"{len(self.rows)} call{'' if len(self.rows) == 1 else 's'}"
        foot = f"{1:6.1%} {self.seconds * 1e6:9.1f}  {calls}, {self.open:.0%} of the time still open"
        part = self.copies / self.seconds if self.seconds else 0.0
        copied = [f"{part:6.1%} {self.copies * 1e6:9.1f}  copies of results"] if part >= _TOLD else []
        return printable("\n".join([head, *map(_line, slowest), *copied, foot]))


def profile_of(calls: Sequence[CallOrigin], costs: Sequence[Cost], seconds: Sequence[float]) -> Profile:
    """The profile of these calls. `seconds`: of each call, then, where there is one more, of what is copied."""
    total = sum(seconds)
    rows = tuple(
        ProfileRow(call, cost, spent, spent / total if total else 0.0)
        for call, cost, spent in zip(calls, costs, seconds, strict=False)
    )
    return Profile(rows, sum(seconds[len(rows) :]))


def _line(row: ProfileRow) -> str:
    layers = f" ({row.layers})" if row.layers else ""
    return (
        f"{row.share:6.1%} {row.seconds * 1e6:9.1f} {row.gflops:8.1f} {row.of_ceiling:8.1%} {row.cost.bound:<10}"
        f"  {row.call.name}{layers}"
    )
