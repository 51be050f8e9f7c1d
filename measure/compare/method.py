"""How two kernels are compared: rounds, ratios, quartiles.

In each round every contender runs once, in random order, for a stretch of time; its figure is the median of the calls in that
stretch. A ratio is formed within a round, so that a machine that drifts drifts for both; the result is the median over the
rounds, with quartiles. A round is repeated when the host or other processes took processor time, or when a fixed calibration
kernel ran at another speed than before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Protocol

OTHERS_LIMIT = 0.02  # share of a round's processor time
CALIBRATION_LIMIT = 0.03  # change of the calibration kernel's time


class Contender(Protocol):
    """Ours or a peer, ready to run."""

    name: str

    def run(self, seconds: float) -> float:
        """Runs for about that long; the median seconds of one call."""
        ...


class Noise(Protocol):
    """Tells whether the machine was itself during a round."""

    def start(self) -> None:
        """A round begins."""
        ...

    def stop(self) -> tuple[float, float]:
        """It is over: (share of processor time taken by others, calibration time against its reference: 1.0 when equal)."""
        ...


@dataclass(frozen=True, slots=True)
class Quartiles:
    """The spread of one figure over the rounds."""

    low: float
    middle: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Quartiles:
        """Quartiles with both ends included; one value stands for all three."""
        if len(values) == 1:
            return Quartiles(values[0], values[0], values[0])
        low, middle, high = quantiles(values, n=4, method="inclusive")
        return Quartiles(low, middle, high)

    def scaled(self, factor: float) -> Quartiles:
        """The same figures in another unit: each times a positive factor."""
        return Quartiles(self.low * factor, self.middle * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class ContestRounds:
    """Seconds of one call by contender, one entry for each round; all lists are equally long.

    `repeated`: rounds thrown away; `noisy`: rounds kept in spite of noise because there was no quiet to be had.
    """

    seconds: Mapping[str, Sequence[float]]
    repeated: int = 0
    noisy: int = 0

    def median(self, name: str) -> float:
        """Median seconds of one call."""
        return median(self.seconds[name])

    def ratio(self, ours: str, peer: str) -> Quartiles:
        """Says how many times faster ours is than the peer: quartiles over the rounds."""
        pairs = zip(self.seconds[ours], self.seconds[peer], strict=True)
        return Quartiles.of([theirs / mine for mine, theirs in pairs])

    def fastest(self, names: Sequence[str]) -> str:
        """The one of them with the smallest median."""
        return min(names, key=self.median)


@dataclass(frozen=True, slots=True)
class Method:
    """The numbers of the method. At most `patience` rounds are repeated for noise; after that they are kept and counted."""

    rounds: int = 9
    seconds: float = 0.3
    patience: int = 9
    seed: int = 0
    report: Callable[[str], None] = field(default=lambda text: None)

    def compare(self, contenders: Sequence[Contender], noise: Noise) -> ContestRounds:
        """Runs the rounds."""
        order = list(contenders)
        generator = random.Random(self.seed)
        times: dict[str, list[float]] = {c.name: [] for c in contenders}
        repeated = noisy = 0
        while any(len(t) < self.rounds for t in times.values()):
            generator.shuffle(order)
            noise.start()
            found = {contender.name: contender.run(self.seconds) for contender in order}
            others, drift = noise.stop()
            quiet = others <= OTHERS_LIMIT and abs(drift - 1) <= CALIBRATION_LIMIT
            if not quiet and repeated < self.patience:
                repeated += 1
                self.report(f"round repeated: {others:.1%} taken by others, calibration at {drift:.3f}")
                continue
            noisy += not quiet
            for name, seconds in found.items():
                times[name].append(seconds)
            self.report(f"round {len(times[order[0].name])} of {self.rounds}")
        return ContestRounds(times, repeated, noisy)
