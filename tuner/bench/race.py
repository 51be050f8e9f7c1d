"""Our kernel and its peers, each in a process of its own: all prepare, what they compute is compared, then the rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...measure.compare.contender import ContenderProcess, MissingContender
from ...measure.compare.method import ContestRounds, Method, Noise, Quartiles
from ...measure.compare.noise import MachineNoise
from .libraries import OURS
from .sampling import difference

AGREEMENT = 2e-3  # largest difference from ours, of the largest value of an output
_CHILD = ("-m", "tilesmith.tuner.bench.child")


@dataclass(frozen=True, slots=True)
class Entered:
    """Holds how one contender came out. `how`: our record, or how a library computes; `missing`: why it did not take part;
    `difference`: from ours, of the largest value."""

    name: str
    how: str = ""
    missing: str = ""
    difference: float | None = None
    seconds: Quartiles | None = None
    ratio: Quartiles | None = None  # how many times faster ours is

    @property
    def agrees(self) -> bool:
        """Says whether it has computed what ours has, as far as both are known."""
        return self.difference is None or self.difference <= AGREEMENT


@dataclass(frozen=True, slots=True)
class Comparison:
    """The contenders, ours first, and the rounds that were run."""

    contenders: tuple[Entered, ...]
    rounds: ContestRounds

    @property
    def agrees(self) -> bool:
        """Says whether all that took part have computed the same."""
        return all(one.agrees for one in self.contenders)


class BenchPeer(ContenderProcess):
    """A contender of `tune bench` (the parent's side)."""

    def __init__(self, name: str, threads: int, folder: Path) -> None:
        super().__init__(name, threads, *_CHILD, log=folder / f"{name}.log")
        self.sample: list[list[float]] = []
        self.how = ""

    def prepare(self, folder: Path, database: str | None) -> None:
        """Begins to prepare what lies in a folder; `prepared` waits until that is done."""
        request = {"folder": str(folder), "library": self.name, "threads": self.threads, "database": database}
        self.tell({"prepare": request})

    def prepared(self) -> None:
        """Waits until it is ready. Errors: MissingContender, RuntimeError where the process ended."""
        answer = self.answer()
        self.sample, self.how = answer["sample"], answer["how"]


def compare(
    folder: Path, against: Sequence[str], threads: int, method: Method, database: str | None,
    noise: Callable[[int, Sequence[int]], Noise] = MachineNoise,
) -> Comparison:  # fmt: skip
    """Runs all of them. What differs from ours is not timed, and is told."""
    team = [BenchPeer(name, threads, folder) for name in (OURS, *against)]
    try:
        found = _entered(folder, team, method, database)
        racing = [peer for peer in team if not found[peer.name].missing and found[peer.name].agrees]
        rounds = (
            method.compare(racing, noise(threads, [peer.process for peer in racing])) if racing else ContestRounds({})
        )
        return Comparison(tuple(_timed(one, rounds) for one in found.values()), rounds)
    finally:
        for peer in team:
            peer.close()


def _entered(folder: Path, team: Sequence[BenchPeer], method: Method, database: str | None) -> dict[str, Entered]:
    """Tells how each came through its preparation, and how far it is from ours."""
    for peer in team:
        peer.prepare(folder, database)
    found: dict[str, Entered] = {}
    for peer in team:
        try:
            peer.prepared()
        except (MissingContender, RuntimeError, OSError) as reason:
            found[peer.name] = Entered(peer.name, missing=str(reason))
            method.report(f"without {peer.name}: {reason}")
            continue
        ours = team[0].sample
        gap = difference(ours, peer.sample) if peer is not team[0] and ours else None
        found[peer.name] = Entered(peer.name, how=peer.how, difference=gap)
        method.report(f"{peer.name} is ready")
    return found


def _timed(one: Entered, rounds: ContestRounds) -> Entered:
    if one.name not in rounds.seconds:
        return one
    ratio = rounds.ratio(OURS, one.name) if OURS in rounds.seconds and one.name != OURS else None
    return Entered(one.name, one.how, one.missing, one.difference, Quartiles.of(rounds.seconds[one.name]), ratio)
