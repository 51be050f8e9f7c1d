"""Outputs against the oracle.

A program that the oracle is quick about is checked at all points. A larger one is checked at `POINTS` points of its real size
(`points.py`); all other points are compared with the output of a kernel that passed, and where the two differ the oracle
settles who is right at exactly those points. Where kernels differ at many points though all are right (small values that
came of large ones), the truth at all points is worked out once, if that is affordable: it costs as much as settling a few
times.

Before a winner is named the contenders are checked thoroughly, by a path of which their schedules have no part: the oracle
at all points, or the unscheduled nest as the kernel that all are compared with, or, where a program is too large for both,
many more points.

How far a kernel may be from the oracle, tensor/oracle/reference.py says. NaN and infinities compare as in NumPy: NaN where NaN
is expected, the infinity of the same sign; a value whose rounding overflows may come out infinite. Integers and bools are
exact, but where floats that were compared or rounded on the way to them may tip.

Where values are so small beside their tolerances that zeros would pass, a check tells nothing: that is said (`remark`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ...schedules.access import points_of
from ...tensor.dtype import DType, accumulator
from ...tensor.oracle.contract import factor_groups
from ...tensor.oracle.evaluate import from_memory
from ...tensor.oracle.reference import Bounded, bounded, bounded_at
from ...tensor.oracle.roundings import FACTOR, LEAST, Array
from ...tensor.program import Program
from .points import draw_points
from .poison import bit_patterns, first_unwritten

POINTS = 4096
YARDSTICK_SECONDS = 5.0  # predicted, of one run of the unscheduled nest, up to which leaders are compared with it
WHOLE_WORK = 1 << 23  # of the oracle, up to which every kernel is checked at all points
SETTLED_WORK = 1 << 25  # the same, up to which the truth is worked out at all points once kernels differ at many
THOROUGH_WORK = 1 << 29  # the same, up to which it is before a winner is named: some ten seconds
_THOROUGH_BYTES = 4 << 30  # of the oracle's tensors
_MORE_POINTS = 1 << 16  # where even that is too much, and no more evaluations than
_MORE_WORK = 1 << 28
_MANY = 256  # points
_PRODUCTS = 64  # products summed by a matrix product, that cost the oracle as much as one evaluation of a body
_BLIND = 0.99  # share of values that zeros could stand for, above which a check tells nothing
_CHUNK = 1 << 16  # elements compared at a time, so that temporaries stay in the cache
_LARGEST = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895313892515355e38}


@dataclass(frozen=True, eq=False)
class Expected:
    """The truth about one output at `places` (flat positions, int64[n]; None: everywhere, in order); floats as float64, with
    float64 tolerances."""

    places: NDArray[np.int64] | None
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
        self._program, self._inputs, self._rng = program, inputs, np.random.default_rng(seed)
        self._outputs = [_OutputChecker(program, inputs, name, self._rng) for name in program.outputs]
        if is_sampled(program):
            for checker in self._outputs:
                checker.know_at(POINTS)
        else:
            self._know_all()

    def check(self, outputs: Sequence[Array]) -> str | None:
        """Returns what is wrong with the outputs of a kernel, or None. Outputs were poisoned before it ran."""
        for checker, found in zip(self._outputs, outputs, strict=True):
            message = checker.check(found)
            if message is not None:
                return message
        for checker, found in zip(self._outputs, outputs, strict=True):
            checker.keep(found)
        return None

    def be_thorough(self, independent: bool) -> None:
        """Makes the truth known at all points from now on, or, where that is too much work, at more of them.

        Args:
            independent: the next kernel to be checked is none of the candidates: it takes the place of the output that passed,
                so that all that follow are compared with it.
        """
        if is_affordable(self._program):
            self._know_all()
            return
        for checker in self._outputs:
            checker.forget()
            if not independent:
                checker.know_more()

    def _know_all(self) -> None:
        if not all(checker.knows_all for checker in self._outputs):
            for checker, truth in zip(self._outputs, bounded(self._program, self._inputs), strict=True):
                checker.know_all(truth)

    @property
    def remark(self) -> str:
        """Returns what a check cannot tell; "" where it tells all that it should."""
        return "; ".join(filter(None, (checker.remark for checker in self._outputs)))


def work(program: Program) -> int:
    """Evaluations of stage bodies that the whole program takes."""
    return sum(points_of(stage) for stage in program.stages)


def oracle_work(program: Program) -> int:
    """The same as it costs the oracle, to which sums of products are matrix products: some 30 ns each, bounds included."""
    return sum(points_of(stage) // (1 if factor_groups(stage) is None else _PRODUCTS) for stage in program.stages)


def is_sampled(program: Program) -> bool:
    """Says whether the outputs of a trial are checked at some points only."""
    return oracle_work(program) > WHOLE_WORK


def is_affordable(program: Program) -> bool:
    """Says whether the oracle can tell the truth at all points, before a winner is named."""
    held = 16 * sum(prod(tensor.shape) for tensor in program.tensors.values())  # values and bounds
    return oracle_work(program) <= THOROUGH_WORK and held <= _THOROUGH_BYTES


class _OutputChecker:
    def __init__(self, program: Program, inputs: Sequence[Array], name: str, rng: np.random.Generator) -> None:
        self._program, self._inputs, self._name, self._rng = program, inputs, name, rng
        tensor = program.tensors[name]
        self._dtype, self._shape = tensor.dtype, tensor.shape
        self._size = prod(tensor.shape)
        self._passed: Array | None = None
        self._expected = Expected(np.empty(0, np.int64), np.empty(0), np.empty(0))
        self._floor = 0.0
        self._limit = ""

    def know_all(self, truth: Bounded) -> None:
        """Computes what is right at all points."""
        self._know(Expected(None, truth[0].reshape(-1), truth[1].reshape(-1)))

    def know_at(self, count: int) -> None:
        """The truth at so many points, or at all."""
        if self._size > count:
            self._know(self._truth(draw_points(self._shape, count, self._rng)))
        elif not self.knows_all:
            self.know_all(bounded_at(self._program, self._inputs, self._name, np.arange(self._size)))

    def know_more(self) -> None:
        """The truth at as many points as are affordable; that these are not all is said."""
        per_point = max(work(self._program) // max(self._size, 1), 1)
        self.know_at(max(POINTS, min(_MORE_POINTS, _MORE_WORK // per_point)))
        if not self.knows_all:
            self._limit = (
                f"{self._name} is checked at {len(self._expected.values)} of its {self._size} elements; "
                "the others are only compared between kernels"
            )

    def _know(self, expected: Expected) -> None:
        self._expected = expected
        self._floor = float(expected.tolerance.min(initial=np.inf))

    @property
    def knows_all(self) -> bool:
        """Says whether all points are checked."""
        return self._expected.places is None

    @property
    def remark(self) -> str:
        """Returns what a check cannot tell, or ""."""
        if is_blind(self._expected):
            return f"zeros would pass for {self._name}: its values are none, or as small as their tolerances"
        return self._limit

    def _truth(self, places: NDArray[np.int64]) -> Expected:
        known = self._expected
        if known.places is None:
            return Expected(places, known.values[places], known.tolerance[places])
        return Expected(places, *bounded_at(self._program, self._inputs, self._name, places))

    def check(self, found: Array) -> str | None:
        unwritten = first_unwritten(found, self._dtype)
        if unwritten is not None:
            return f"{self._place(unwritten)} was never written"
        message = self._against(found, self._expected)
        if message is None and self._passed is not None and not self.knows_all:
            places = differing(found, self._passed, self._dtype, self._floor)
            message = self._settle(found, places)
        return message

    def keep(self, found: Array) -> None:
        """Others are compared with this one. What is checked at all points needs no comparison."""
        if self._passed is None and not self.knows_all:
            self._passed = found.copy()

    def forget(self) -> None:
        """The next one that passes is the one that others are compared with."""
        self._passed = None

    def _settle(self, found: Array, places: NDArray[np.int64]) -> str | None:
        """The oracle says who is right where `found` and the output that passed differ."""
        if not len(places):
            return None
        if len(places) > _MANY and oracle_work(self._program) <= SETTLED_WORK:
            number = self._program.outputs.index(self._name)
            self.know_all(bounded(self._program, self._inputs)[number])
            return self._against(found, self._expected)
        if len(places) > POINTS:
            places = np.sort(self._rng.choice(places, POINTS, replace=False))
        message = self._against(found, self._truth(places))
        if message is None and self._passed is not None:
            self._passed.reshape(-1)[places] = found.reshape(-1)[places]
        return message

    def _against(self, found: Array, expected: Expected) -> str | None:
        wrong = np.concatenate(
            [start + np.flatnonzero(~right) for start, right in _judged(found, expected, self._dtype)]
        )
        if not len(wrong):
            return None
        at = wrong if expected.places is None else expected.places[wrong]
        values = from_memory(found.reshape(-1)[at], self._dtype)
        return (
            f"{self._place(int(at[0]))}: expected {expected.values[wrong[0]]:.9g}, found {values[0]:.9g}, "
            f"tolerance {expected.tolerance[wrong[0]]:.2g}; {len(wrong)} of {len(expected.values)} checked points differ"
        )

    def _place(self, flat: int) -> str:
        index = ", ".join(str(i) for i in np.unravel_index(flat, self._shape)) if self._shape else ""
        return f"{self._name}[{index}]"


def _judged(found: Array, expected: Expected, dtype: DType) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Chunks of the expected points: (first one, bool[chunk] which are right)."""
    flat, count = found.reshape(-1), len(expected.values)
    for start in range(0, max(count, 1), _CHUNK):
        part = slice(start, start + _CHUNK)
        values = flat[part] if expected.places is None else flat[expected.places[part]]
        truth = Expected(None, expected.values[part], expected.tolerance[part])
        yield start, agrees(from_memory(values, dtype), truth, dtype)


def is_blind(expected: Expected) -> bool:
    """Says whether zeros would pass for nearly all values that are not zero, or there are none. NaN and infinities tell
    nothing."""
    values = expected.values
    with np.errstate(invalid="ignore"):
        telling = np.isfinite(values) & (np.abs(values) > expected.tolerance)
    return int(telling.sum()) <= (1 - _BLIND) * int((values != 0).sum())


def agrees(values: Array, expected: Expected, dtype: DType) -> NDArray[np.bool_]:
    """bool[n]: which values are within tolerance; floats as float64."""
    truth, tolerance = expected.values, expected.tolerance
    if not dtype.is_float:
        same = values == truth
        if same.all():
            return np.asarray(same)
        apart = np.abs(np.subtract(values, truth, dtype=np.float64))  # which rounds: 0 does not say that they are equal
        return np.asarray(same | ((apart <= tolerance) & (tolerance > 0)))
    with np.errstate(invalid="ignore", over="ignore"):
        near = (np.abs(values - truth) <= tolerance) & np.isfinite(truth)
        same = (values == truth) | (np.isnan(values) & np.isnan(truth))
        overflow = np.isinf(values) & (np.abs(truth) + tolerance >= _LARGEST[dtype.name]) & (truth * values > 0)
    return np.asarray((near & np.isfinite(values)) | same | overflow)


def differing(found: Array, passed: Array, dtype: DType, floor: float) -> NDArray[np.int64]:
    """int64[n]: flat positions where two outputs differ by more than any tolerance is sure to allow.

    Two right values are no further apart than FACTOR * eps * |value|, or than one place of a narrow type; as far as the
    sampled points tell, tolerances are not below `floor`.
    """
    parts = [start + np.flatnonzero(~close) for start, close in _compared(found, passed, dtype, floor)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _compared(found: Array, passed: Array, dtype: DType, floor: float) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Chunks that are not equal bit by bit: (first position, bool[chunk] which elements are close)."""
    mine, theirs = bit_patterns(found), bit_patterns(passed)
    narrow = accumulator(dtype) != dtype
    apart = (1.0 if narrow else FACTOR) * dtype.eps
    floor = max(floor, LEAST[dtype.name]) if narrow else floor  # a place of what is subnormal
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
            allowed = np.maximum(np.abs(b) * a.dtype.type(apart), a.dtype.type(floor))
            yield start, np.asarray((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))
