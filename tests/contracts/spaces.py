"""Small spaces with a known optimum, for tests of what searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilesmith.measure.result import Failure, Measurement, Status
from tilesmith.schedules.space import Candidate, ConfigSpace, Parameter, Population
from tilesmith.schedules.space_ops import population


@dataclass(frozen=True)
class ToySpace:
    """Two structures: `tiled` is better at its best, `plain` is smaller. Times are smooth with ridges and interactions.

    Args:
        values: the number of values of each numeric parameter.
        with_prior: whether `prior` is known; it is right about the trend and wrong by up to 1.5 times in detail.
        failures: whether a corner of the space fails when it is run (no `require` forbids it).
    """

    values: int = 12
    with_prior: bool = True
    failures: bool = True

    @property
    def config_spaces(self) -> Sequence[ConfigSpace]:
        numbers = tuple(range(1, self.values + 1))
        tiles = tuple(Parameter(name, numbers) for name in ("i.tile", "j.tile", "k.block", "i.mid"))
        kind = Parameter("order", ("ijk", "ikj", "jik"), ordered=False)
        one = Parameter("lanes", (16,))
        return (ConfigSpace("tiled", "tiled", (*tiles, kind, one)), ConfigSpace("plain", "plain", (tiles[0], kind)))

    def _logs(self, p: Population) -> list[NDArray[np.float64]]:
        tiled = p.sketch == 0
        parts = [p.choices[:, i] if tiled or i == 0 else np.zeros(len(p)) for i in range(4)]
        return [part / (self.values - 1) for part in parts]

    def valid(self, p: Population) -> NDArray[np.bool_]:
        if p.sketch == 1:
            return np.ones(len(p), dtype=np.bool_)
        return (p.choices[:, 0] + 1) * (p.choices[:, 1] + 1) <= self.values**2 // 2

    def prior(self, p: Population) -> NDArray[np.float64] | None:
        if not self.with_prior:
            return None
        i, j, k, _ = self._logs(p)
        return np.asarray(1e-3 * np.exp((i - 0.5) ** 2 + 2 * (j - 0.4) ** 2 + (k - 0.6) ** 2 + 0.7 * (p.sketch == 1)))

    def features(self, p: Population) -> NDArray[np.float32]:
        kind = p.choices[:, 4 if p.sketch == 0 else 1]
        numbers = [*self._logs(p), kind == 0, kind == 1, kind == 2, np.full(len(p), p.sketch)]
        return np.stack([np.asarray(n, dtype=np.float32) for n in numbers], axis=1)

    def seconds(self, p: Population) -> NDArray[np.float64]:
        """The truth."""
        i, j, k, mid = self._logs(p)
        kind = p.choices[:, 4 if p.sketch == 0 else 1]
        tile = (i - 0.6) ** 2 + 2 * (j - 0.3) ** 2 + 2 * (i * j - 0.18) ** 2
        detail = (k - 0.7) ** 2 + (mid - 0.2) ** 2 + np.array([0.0, 0.25, 0.1])[kind] + 0.06 * np.sin(17 * i + 11 * k)
        return np.asarray(1e-3 * np.exp(tile + detail + 0.7 * (p.sketch == 1)))

    def fails(self, p: Population) -> NDArray[np.bool_]:
        i = self._logs(p)[0]
        return (i > 0.8) & (p.sketch == 0) if self.failures else np.zeros(len(p), dtype=np.bool_)

    def measure(self, candidate: Candidate) -> Measurement:
        """What a runner would say."""
        one = population(candidate.sketch, [candidate], len(self.config_spaces[candidate.sketch].parameters))
        if self.fails(one)[0]:
            return Measurement(Status.CRASH, failure=Failure("time", "signal 11"))
        return Measurement(Status.OK, times=(float(self.seconds(one)[0]),))

    def best(self) -> float:
        """The least time of all, found by counting through."""
        from tilesmith.schedules.space_ops import enumerate_configs, take

        chunks = (take(c, ~self.fails(c)) for sketch in range(2) for c in enumerate_configs(self, sketch))
        return min(float(self.seconds(c).min()) for c in chunks if len(c))


class ManyOptions(ToySpace):
    """Four flags beside the toy's parameters."""

    @property
    def config_spaces(self) -> Sequence[ConfigSpace]:
        first, second = super().config_spaces
        flags = tuple(Parameter(f"flag {n}", (False, True), ordered=False) for n in range(4))
        return (ConfigSpace("tiled", "tiled", (*first.parameters, *flags)), second)

    def prior(self, p: Population) -> np.ndarray:
        """The fourth flag is cheap, the others are dear."""
        told = super().prior(p)
        assert told is not None
        dear = p.choices[:, 6:9].sum(axis=1) if p.sketch == 0 else 0
        return np.asarray(told * 1.2**dear)
