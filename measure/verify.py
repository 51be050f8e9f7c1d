"""Outputs against the oracle.

A small program is checked at all points. A large one is checked at `POINTS` points of its real size, drawn at random with
edges preferred, because that is where a schedule's tails are; all other points are compared with the output of a kernel
that passed, and where the two differ the oracle settles who is right at exactly those points. Where kernels differ at many
points though all are right (small values that came of large ones), the truth at all points is worked out once, if that is
affordable: it costs as much as settling a few times.

A kernel may differ from the oracle by FACTOR * eps * magnitude (tensor/reference.py says what a magnitude is). NaN and
infinities compare as in NumPy: NaN where NaN is expected, the infinity of the same sign; a value whose rounding
overflows may come out infinite. Integers are exact, but where floats were compared or rounded on the way to them, a tie
may tip: a small share of the points may then be off by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..tensor.contract import factor_groups
from ..tensor.dtype import DType
from ..tensor.evaluate import Array, from_memory
from ..tensor.program import Program
from ..tensor.reference import evaluate, evaluate_at
from .poison import bit_patterns, first_unwritten

POINTS = 4096
FACTOR = 4.0
WHOLE_WORK = 1 << 22  # evaluations of stage bodies up to which all points are checked
_SETTLED_WORK = 1 << 25  # the same, up to which the truth is worked out at all points once they differ at many
_MANY = 256  # points
_PRODUCTS = 64  # products summed by a matrix product, that cost the oracle as much as one evaluation of a body
_TIPPED = 1e-4  # share of points of an integer output that may be off by one
_CHUNK = 1 << 16  # elements compared at a time, so that temporaries stay in the cache
_LARGEST = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895313892515355e38}
_SMALLEST = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126}  # may be flushed to zero


@dataclass(frozen=True, eq=False)
class Expected:
    """The truth about one output at `places` (flat positions, int64[n]); floats as float64, with float64 tolerances."""

    places: NDArray[np.int64]
    values: Array
    tolerance: NDArray[np.float64]


class Checker:
    """Checks the outputs of kernels of one program on one set of inputs; see the head of this file.

    It learns: the first output that passes becomes the one that others are compared with.

    Args:
        inputs: arrays in the order of `program.inputs`, constants among them.
        seed: of the points.
    """

    def __init__(self, program: Program, inputs: Sequence[Array], seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        whole = work(program) <= WHOLE_WORK
        self._outputs = [_OutputChecker(program, inputs, name, rng, whole) for name in program.outputs]

    def check(self, outputs: Sequence[Array]) -> str | None:
        """What is wrong with the outputs of a kernel, or None. Outputs were poisoned before it ran."""
        for checker, found in zip(self._outputs, outputs, strict=True):
            message = checker.check(found)
            if message is not None:
                return message
        for checker, found in zip(self._outputs, outputs, strict=True):
            checker.keep(found)
        return None


def work(program: Program) -> int:
    """Evaluations of stage bodies that the whole program takes."""
    return sum(prod(axis.extent for axis in stage.all_axes) for stage in program.stages)


def oracle_work(program: Program) -> int:
    """The same as it costs the oracle, to which sums of products are matrix products."""
    return sum(
        prod(axis.extent for axis in stage.all_axes) // (1 if factor_groups(stage) is None else _PRODUCTS)
        for stage in program.stages
    )


class _OutputChecker:
    def __init__(
        self, program: Program, inputs: Sequence[Array], name: str, rng: np.random.Generator, whole: bool
    ) -> None:
        self._program, self._inputs, self._name, self._rng = program, inputs, name, rng
        tensor = program.tensors[name]
        self._dtype, self._shape = tensor.dtype, tensor.shape
        self._may_tip = not tensor.dtype.is_float and any(t.dtype.is_float for t in program.tensors.values())
        self._passed: Array | None = None
        self._affordable = oracle_work(program) <= _SETTLED_WORK
        self._everywhere: tuple[Array, Array] | None = None  # values and magnitudes
        size = prod(tensor.shape)
        places = np.arange(size) if whole or size <= POINTS else draw_points(tensor.shape, POINTS, rng)
        self._whole = whole
        self._expected = self._truth(places)
        self._floor = float(self._expected.tolerance.min(initial=np.inf))

    def _truth(self, places: NDArray[np.int64]) -> Expected:
        program, inputs, name = self._program, self._inputs, self._name
        if self._whole or self._everywhere is not None:
            values, magnitude = (part[places] for part in self._everywhere or self._at_all_points())
        else:
            points = np.stack(np.unravel_index(places, self._shape), axis=-1) if self._shape else places.reshape(-1, 0)
            values = evaluate_at(program, inputs, name, points)
            magnitude = evaluate_at(program, inputs, name, points, absolute=True)
        return Expected(places, values, tolerances(magnitude, self._dtype))

    def _at_all_points(self) -> tuple[Array, Array]:
        number = self._program.outputs.index(self._name)
        values, magnitude = (evaluate(self._program, self._inputs, absolute)[number] for absolute in (False, True))
        return values.reshape(-1), magnitude.reshape(-1)

    def check(self, found: Array) -> str | None:
        unwritten = first_unwritten(found, self._dtype)
        if unwritten is not None:
            return f"{self._place(unwritten)} was never written"
        message = self._against(found, self._expected)
        if message is None and self._passed is not None:
            places = differing(found, self._passed, self._dtype, self._floor)
            message = self._settle(found, places)
        return message

    def keep(self, found: Array) -> None:
        """Others are compared with this one. What is checked at all points needs no comparison."""
        if self._passed is None and len(self._expected.places) < found.size:
            self._passed = found.copy()

    def _settle(self, found: Array, places: NDArray[np.int64]) -> str | None:
        """The oracle says who is right where `found` and the output that passed differ."""
        if not len(places):
            return None
        if self._everywhere is None and self._affordable and len(places) > _MANY:
            self._everywhere = self._at_all_points()
        if len(places) > POINTS and self._everywhere is None:
            places = np.sort(self._rng.choice(places, POINTS, replace=False))
        message = self._against(found, self._truth(places))
        if message is None and self._passed is not None:
            self._passed.reshape(-1)[places] = found.reshape(-1)[places]
        return message

    def _against(self, found: Array, expected: Expected) -> str | None:
        values = from_memory(found.reshape(-1)[expected.places], self._dtype)
        wrong = np.flatnonzero(~agrees(values, expected, self._dtype))
        if not len(wrong) or self._only_tipped(values, expected, wrong):
            return None
        at = wrong[0]
        return (
            f"{self._place(int(expected.places[at]))}: expected {expected.values[at]:.9g}, found {values[at]:.9g}, "
            f"tolerance {expected.tolerance[at]:.2g}; {len(wrong)} of {len(values)} checked points differ"
        )

    def _only_tipped(self, values: Array, expected: Expected, wrong: NDArray[np.int64]) -> bool:
        if not self._may_tip or len(wrong) > max(1, _TIPPED * len(values)):
            return False
        distance = np.abs(values[wrong].astype(np.float64) - expected.values[wrong].astype(np.float64))
        return bool(np.all(distance <= 1))

    def _place(self, flat: int) -> str:
        index = ", ".join(str(i) for i in np.unravel_index(flat, self._shape)) if self._shape else ""
        return f"{self._name}[{index}]"


def tolerances(magnitude: Array, dtype: DType) -> NDArray[np.float64]:
    """float64[n]: how far a kernel may be from the truth; 0 for integers."""
    if not dtype.is_float:
        return np.zeros(magnitude.shape)
    wide = FACTOR * dtype.eps * magnitude + _SMALLEST[dtype.name]
    return np.asarray(np.where(np.isnan(wide), np.inf, wide))


def agrees(values: Array, expected: Expected, dtype: DType) -> NDArray[np.bool_]:
    """bool[n]: which values are within tolerance; floats as float64."""
    if not dtype.is_float:
        return np.asarray(values == expected.values)
    truth, tolerance = expected.values, expected.tolerance
    with np.errstate(invalid="ignore", over="ignore"):
        near = (np.abs(values - truth) <= tolerance) & np.isfinite(truth)
        same = (values == truth) | (np.isnan(values) & np.isnan(truth))
        overflow = np.isinf(values) & (np.abs(truth) + tolerance >= _LARGEST[dtype.name]) & (truth * values > 0)
    return np.asarray((near & np.isfinite(values)) | same | overflow)


def draw_points(shape: tuple[int, ...], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """int64[<= count]: sorted distinct flat positions. Half are anywhere; in the others some axes stand within 2 of an end.

    The first and the last element are always among them.
    """
    sizes = np.array(shape, dtype=np.int64)
    index = rng.integers(0, sizes, size=(count, len(shape)))
    edge = rng.integers(0, np.minimum(sizes, 2), size=index.shape)
    edge = np.where(rng.random(index.shape) < 0.5, edge, sizes - 1 - edge)
    at_edge = (rng.random(index.shape) < 0.5) & (np.arange(count) % 2 == 1)[:, None]
    index = np.where(at_edge, edge, index)
    index[0], index[-1] = 0, sizes - 1
    return np.unique(np.ravel_multi_index(tuple(index.T), shape)).astype(np.int64)


def differing(found: Array, passed: Array, dtype: DType, floor: float) -> NDArray[np.int64]:
    """int64[n]: flat positions where two outputs differ by more than any tolerance is sure to allow.

    A tolerance is never below FACTOR * eps * |value|, nor, as far as the sampled points tell, below `floor`.
    """
    parts = [start + np.flatnonzero(~close) for start, close in _compared(found, passed, dtype, floor)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _compared(found: Array, passed: Array, dtype: DType, floor: float) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Chunks that are not equal bit by bit: (first position, bool[chunk] which elements are close)."""
    mine, theirs = bit_patterns(found), bit_patterns(passed)
    for start in range(0, mine.size, _CHUNK):
        place = slice(start, start + _CHUNK)
        if np.array_equal(mine[place], theirs[place]):
            continue
        a, b = found.reshape(-1)[place], passed.reshape(-1)[place]
        if not dtype.is_float:
            yield start, np.asarray(a == b)
            continue
        if dtype.bits < 32:
            a, b = from_memory(a, dtype), from_memory(b, dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            allowed = np.maximum(np.abs(b) * a.dtype.type(FACTOR * dtype.eps), a.dtype.type(floor))
            yield start, np.asarray((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))
