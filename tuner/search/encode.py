"""Raw parameters as numbers for models, where a space has nothing better to offer.

A number counts half by its logarithm (tile sizes double), half by its position in the domain, and apart from that by its
largest odd divisor: what is no power of two fits badly into widths, banks and extents that are. An option gets one column for
each value. Trees are also shown which sizes are equal and which divide another: remainders cost work, and hardware likes what
fits. Every sketch has columns of its own, in the middle of their range for the candidates of other sketches.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...schedules.space import ConfigValue, Parameter, Population, Space


class Encoding:
    """`points` for distances (each column within 0 and 1), `features` for trees (more columns, any scale).

    `paired`: how many parameters of a sketch show trees the sums and differences of their logarithms, and
        which of them are equal or divide each other.
    """

    def __init__(self, space: Space, paired: int) -> None:
        self._space = space
        of_sketch = [config_space.parameters for config_space in space.config_spaces]
        self._tables = [[_table(p) for p in parameters if len(p.values) > 1] for parameters in of_sketch]
        self._open = [[i for i, p in enumerate(parameters) if len(p.values) > 1] for parameters in of_sketch]
        self._logs = [[_log_table(p) for p in parameters] for parameters in of_sketch]
        self._paired = [
            [i for i, p in enumerate(parameters) if p.ordered and len(p.values) > 2][:paired]
            for parameters in of_sketch
        ]
        self._relations = [
            [
                (a, b, table)
                for a, b in combinations(paired, 2)
                for table in _relations(*(parameters[i] for i in (a, b)))
            ]
            for parameters, paired in zip(of_sketch, self._paired, strict=True)
        ]
        self._sketches = len(space.config_spaces)

    @property
    def dimensions(self) -> int:
        """The number of columns of `points`."""
        own = sum(int(table.shape[1]) for tables in self._tables for table in tables)
        return max(own + (self._sketches if self._sketches > 1 else 0), 1)

    def points(self, population: Population) -> NDArray[np.float64]:
        """float64[n, dimensions], every entry between 0 and 1."""
        count = len(population)
        columns = []
        for sketch, (tables, places) in enumerate(zip(self._tables, self._open, strict=True)):
            for table, place in zip(tables, places, strict=True):
                here = (
                    table[population.choices[:, place]]
                    if sketch == population.sketch
                    else np.full((count, table.shape[1]), 0.5)
                )
                columns.append(here)
            if self._sketches > 1:
                columns.append(np.full((count, 1), float(sketch == population.sketch)))
        return np.concatenate(columns, axis=1) if columns else np.zeros((count, 1))

    def plain(self, population: Population) -> NDArray[np.bool_]:
        """bool[n]: where all sizes are powers of two (of parameters that offer any)."""
        found = np.ones(len(population), dtype=np.bool_)
        for place, parameter in enumerate(self._space.config_spaces[population.sketch].parameters):
            fits = np.array([_odd(value) == 1 for value in parameter.values])
            found &= fits[population.choices[:, place]] | ~fits.any()
        return found

    def features(self, population: Population) -> NDArray[np.float32]:
        """float32[n, f]: the points, and of pairs of sizes the logarithms of products and ratios, and their relations."""
        count = len(population)
        columns = [self.points(population)]
        for sketch, paired in enumerate(self._paired):
            if sketch != population.sketch:
                columns.append(np.zeros((count, len(paired) * (len(paired) - 1) + len(self._relations[sketch]))))
                continue
            logs = {i: self._logs[sketch][i][population.choices[:, i]] for i in paired}
            for a, b in combinations(paired, 2):
                columns.append(np.stack([logs[a] + logs[b], logs[a] - logs[b]], axis=1))
            for a, b, table in self._relations[sketch]:
                columns.append(table[population.choices[:, a], population.choices[:, b], None])
        return np.concatenate(columns, axis=1).astype(np.float32)


def _log_table(parameter: Parameter) -> NDArray[np.float64]:
    """float64[values]: base-2 logarithms; positions where values are no numbers."""
    if any(isinstance(v, str) for v in parameter.values):
        return np.arange(len(parameter.values), dtype=np.float64)
    return np.asarray(np.log2(np.maximum(np.array([float(v) for v in parameter.values]), 0.5)))


def _relations(first: Parameter, second: Parameter) -> list[NDArray[np.float64]]:
    """float64[values, values] each, 1 where it holds: equal, a multiple, a divisor. What holds for all or none is left out."""
    if any(isinstance(v, str) for v in (*first.values, *second.values)):
        return []
    a, b = np.meshgrid(np.array(first.values, np.float64), np.array(second.values, np.float64), indexing="ij")
    multiple = (b > 0) & (a % np.where(b > 0, b, 1) == 0)
    divisor = (a > 0) & (b % np.where(a > 0, a, 1) == 0)
    return [table.astype(np.float64) for table in (a == b, multiple, divisor) if table.any() and not table.all()]


def _table(parameter: Parameter) -> NDArray[np.float64]:
    """float64[values, columns] between 0 and 1."""
    count = len(parameter.values)
    if not parameter.ordered and count > 2:
        return np.eye(count)
    position = np.arange(count) / (count - 1)
    logs = _log_table(parameter)
    width = np.ptp(logs)
    scaled = (logs - logs.min()) / width if width else position
    odd = np.log2([_odd(v) for v in parameter.values])
    if count > 2 and np.ptp(odd) and np.any(odd < logs):
        return np.stack([(position + scaled) / 2, odd / odd.max()], axis=1)
    return np.asarray((position + scaled)[:, None] / 2)


def _odd(value: ConfigValue) -> int:
    """The largest odd divisor; 1 of what is no natural number."""
    number = int(value) if not isinstance(value, str) and value > 0 and value == int(value) else 1
    return number // (number & -number)
