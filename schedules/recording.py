"""Arithmetic on columns, recorded once and played for any number of populations.

A walk over a loop tree (cost_model/cpu/analysis.py) takes milliseconds of Python, whatever the number of candidates. With the
columns of a `Recording` for extents, it leaves behind the list of array operations that it would have done on arrays. That
list is all that a further population of the same sketch needs:

    recording = Recording({"i.tile": (1, 2, 4), ...})        the tunables with their domains
    seconds = walk(recording.columns())                      operators and np functions on these are written down
    player = recording.player([seconds])
    player.play(choices)                                     int32[n, p] positions in the domains -> [float64[n]]

Equal operations are one, and so is a function that is `elementwise`, whatever it does inside. Whatever depends on few tunables
has few values: it is calculated once, as a table over their domains, and looked up. With a constant of shape [r, 1] among its
operands, an operation gives r rows at once, of which `row_of` takes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from math import prod
from operator import getitem, itemgetter
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

TABLE = 1024  # entries up to which an operation is done for all values of its tunables, once
ROWS = 4096  # candidates at a time: what is alive stays in the second-level cache

FUNCTIONS = (np.where, np.interp)  # that are no ufuncs, and work row by row

ArrayOperation = Callable[..., Any]
_NEUTRAL: Mapping[ArrayOperation, float] = {np.add: 0.0, np.subtract: 0.0, np.multiply: 1.0, np.true_divide: 1.0}
_EITHER = (np.add, np.multiply)  # of which the left operand may be neutral
_GIVE_FLOATS: set[ArrayOperation] = {np.true_divide, np.interp}
_ARITHMETIC = {np.add, np.subtract, np.multiply, np.minimum, np.maximum, np.ceil, np.power, np.negative, np.where}
P = ParamSpec("P")
R = TypeVar("R")
RecordedStep = tuple[ArrayOperation | None, tuple[object, ...]]  # of no operation: the tunables
Tunables = tuple[int, ...]  # by number, ascending


def _forward(operation: ArrayOperation) -> Callable[[Column, object], Any]:
    return lambda self, other: self.recording.do(operation, (self, other))


def _backward(operation: ArrayOperation) -> Callable[[Column, object], Any]:
    return lambda self, other: self.recording.do(operation, (other, self))


class Column:
    """Numbers that are not known yet, one for each candidate. Operators and NumPy's functions take it as they take an array."""

    __slots__ = ("number", "real", "recording")

    def __init__(self, recording: Recording, number: int, real: bool = False) -> None:
        self.recording = recording
        self.number = number
        self.real = real  # known to be float64

    __add__, __radd__ = _forward(np.add), _backward(np.add)
    __sub__, __rsub__ = _forward(np.subtract), _backward(np.subtract)
    __mul__, __rmul__ = _forward(np.multiply), _backward(np.multiply)
    __truediv__, __rtruediv__ = _forward(np.true_divide), _backward(np.true_divide)
    __floordiv__, __rfloordiv__ = _forward(np.floor_divide), _backward(np.floor_divide)
    __mod__, __rmod__ = _forward(np.remainder), _backward(np.remainder)
    __pow__, __rpow__ = _forward(np.power), _backward(np.power)
    __and__, __rand__ = _forward(np.bitwise_and), _backward(np.bitwise_and)
    __or__, __ror__ = _forward(np.bitwise_or), _backward(np.bitwise_or)
    __lt__, __le__ = _forward(np.less), _forward(np.less_equal)
    __gt__, __ge__ = _forward(np.greater), _forward(np.greater_equal)
    __eq__, __ne__ = _forward(np.equal), _forward(np.not_equal)
    __hash__ = None  # type: ignore[assignment]  # as of an array

    def __neg__(self) -> Any:
        return self.recording.do(np.negative, (self,))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> Any:
        return NotImplemented if method != "__call__" or options else self.recording.do(ufunc, inputs)

    def __array_function__(self, function: ArrayOperation, types: object, args: Any, options: Any) -> Any:
        return self.recording.do(function, args) if function in FUNCTIONS and not options else NotImplemented

    def __bool__(self) -> bool:
        raise TypeError("the truth of a column differs from candidate to candidate: use np.where")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise TypeError("a column has no numbers before it is played: use NumPy's functions on the column itself")

    def __int__(self) -> int:
        raise TypeError("a column is not one number")

    def __float__(self) -> float:
        raise TypeError("a column is not one number")

    def astype(self, kind: type[np.generic]) -> Any:
        """Converts the column to another type of numbers."""
        return self.recording.do(np.multiply, (self, kind(1)))


class Recording:
    """Holds what is done to columns. `domains`: the values of each tunable."""

    def __init__(self, domains: Mapping[str, Sequence[int]]) -> None:
        self.domains = [np.array(values, dtype=np.int64) for values in domains.values()]
        self.steps: list[RecordedStep] = [(None, ())] * len(self.domains)
        self._tunables = {name: Column(self, number) for number, name in enumerate(domains)}
        self._done: dict[tuple[object, ...], Column] = {}

    def columns(self) -> dict[str, Column]:
        """Returns the column of each tunable by its name."""
        return dict(self._tunables)

    def do(self, operation: ArrayOperation, operands: tuple[object, ...]) -> Column:
        """The result of an operation, at least one of whose operands is a column."""
        # with types, for 1, 1.0 and True are equal, but not the same
        key = (operation, *[o.number if type(o) is Column else (type(o), _hashable(o)) for o in operands])
        found = self._done.get(key)
        if found is None:
            same = _unchanged(operation, operands)
            found = self._done[key] = self._new(operation, operands) if same is None else same
        return found

    def _new(self, operation: ArrayOperation, operands: tuple[object, ...]) -> Column:
        self.steps.append((operation, operands))
        return Column(self, len(self.steps) - 1, _is_real(operation, operands))

    def player(self, results: Sequence[object]) -> Player:
        """Returns what gives these results (columns, or plain numbers) for any population."""
        return Player(self, results)


def elementwise(function: Callable[P, R]) -> Callable[P, R]:
    """A function of numbers or arrays of them, candidate by candidate, with a float64 for each: one step where one is a column.
    It takes its operands by their places."""

    @wraps(function)
    def done(*operands: P.args, **options: P.kwargs) -> R:
        for operand in operands:
            if type(operand) is Column:
                if options:
                    raise TypeError(
                        f"{function.__name__} of columns takes operands by their places, not {list(options)}"
                    )
                return operand.recording.do(function, operands)  # type: ignore[return-value]  # a column where arrays were
        return function(*operands, **options)

    _GIVE_FLOATS.add(function)
    return done


def row_of(values: Any, number: int) -> Any:
    """One of the rows of what was calculated with a constant of shape [r, 1]."""
    if type(values) is Column:
        return values.recording.do(getitem, (values, number))
    return values[number] if values.shape[-1] > 1 else values[number, 0]


def _unchanged(operation: ArrayOperation, operands: tuple[object, ...]) -> Column | None:
    """Returns the operand that an operation gives back as it is: sums begin with 0.0, products with 1.0."""
    neutral = _NEUTRAL.get(operation)
    if neutral is None or len(operands) != 2:
        return None
    one, other = operands
    if type(one) is Column:
        return one if one.real and _is(other, neutral) else None
    return other if operation in _EITHER and type(other) is Column and other.real and _is(one, neutral) else None


def _is(operand: object, neutral: float) -> bool:
    return isinstance(operand, float) and operand == neutral


def _is_real(operation: ArrayOperation, operands: tuple[object, ...]) -> bool:
    """Says whether a result is float64 for sure."""
    if operation in _GIVE_FLOATS:
        return True
    if operation not in _ARITHMETIC:
        return False
    for operand in operands[1:] if operation is np.where else operands:
        if operand.real if type(operand) is Column else isinstance(operand, float):
            return True
    return False


def _hashable(operand: object) -> object:
    return (operand.shape, operand.dtype.str, operand.tobytes()) if isinstance(operand, np.ndarray) else operand


class Player:
    """The operations behind some results of a recording: those of few values as tables, the rest as a list.

    What is alive stands in slots: first the positions of the tunables, then numbers, places in tables, and results of steps.
    """

    def __init__(self, recording: Recording, results: Sequence[object]) -> None:
        reader = _RecordingReader(recording, results)
        self._slots, self._results = reader.slots, reader.results
        self._program = _with_ends(reader.steps, {*reader.results, *range(len(recording.domains))})

    def play(self, choices: NDArray[np.int32]) -> list[NDArray[Any]]:
        """The results for candidates: `choices` is int32[n, p], positions in the domains. Each result is an array of n."""
        if len(choices) <= ROWS:
            return self._play(choices)
        parts = [self._play(choices[start : start + ROWS]) for start in range(0, len(choices), ROWS)]
        return [np.concatenate(results) for results in zip(*parts, strict=True)]

    def _play(self, choices: NDArray[np.int32]) -> list[NDArray[Any]]:
        values: list[Any] = self._slots.copy()
        values[: choices.shape[1]] = np.ascontiguousarray(choices.T, dtype=np.intp)
        for slot, operation, operands, over in self._program:
            values[slot] = operation(*operands(values))
            for done in over:
                values[done] = None
        return [_one_each(values[r], len(choices)) for r in self._results]


class _RecordingReader:
    """Turns a recording into what a player does. `slots`: what stands in them at first; `results`: where the results will."""

    def __init__(self, recording: Recording, results: Sequence[object]) -> None:
        self._grid = _Grid([len(domain) for domain in recording.domains])
        self._over: dict[int, Tunables] = {}  # on which tunables a table depends
        self._tables: dict[int, NDArray[Any]] = {}  # the last tunable runs fastest
        self.slots: list[object] = [None] * len(recording.domains)
        self._places: dict[Tunables, int] = {(n,): n for n in range(len(recording.domains))}  # slots
        self._values: dict[int, int] = {}  # slots of the recording's steps
        self.steps: list[tuple[int, ArrayOperation, tuple[int, ...]]] = []
        self._read(recording, {r.number for r in results if isinstance(r, Column)})
        self.results = [self._slot(r) for r in results]

    def _read(self, recording: Recording, wanted: set[int]) -> None:
        """Fills tables and steps."""
        for number in _needed(recording.steps, wanted):
            operation, operands = recording.steps[number]
            if operation is None:
                self._over[number] = (number,)
                self._tables[number] = recording.domains[number]
                continue
            over = self._dependence(operands)
            if over is None or self._grid.entries(over) > TABLE:
                self._values[number] = self._step(operation, tuple([self._slot(o) for o in operands]))
                continue
            self._over[number] = over
            self._tables[number] = operation(*[self._known(o, over) if type(o) is Column else o for o in operands])

    def _dependence(self, operands: tuple[object, ...]) -> Tunables | None:
        """The tunables behind operands that are all tables; None where one is not."""
        found: Tunables = ()
        for operand in operands:
            if type(operand) is Column:
                own = self._over.get(operand.number)
                if own is None:
                    return None
                if own != found:
                    found = tuple(sorted({*found, *own})) if found else own
        return found

    def _known(self, operand: Column, over: Tunables) -> NDArray[Any]:
        """An operand for all values of some tunables."""
        table, own = self._tables[operand.number], self._over[operand.number]
        return table if own == over else table.take(self._grid.part(own, over), axis=-1)

    def _step(self, operation: ArrayOperation, operands: tuple[int, ...]) -> int:
        """One more step; returns the slot of its result."""
        slot = self._new(None)
        self.steps.append((slot, operation, operands))
        return slot

    def _new(self, value: object) -> int:
        self.slots.append(value)
        return len(self.slots) - 1

    def _slot(self, operand: object) -> int:
        """Says where a step finds an operand; what stands in a table is looked up by a step of its own."""
        if type(operand) is not Column:
            return self._new(operand)
        number = operand.number
        if number not in self._values:
            self._values[number] = self._step(
                partial(self._tables[number].take, axis=-1), (self._place(self._over[number]),)
            )
        return self._values[number]

    def _place(self, over: Tunables) -> int:
        """The slot of where each candidate looks in a table."""
        if over not in self._places:
            before, size = self._place(over[:-1]), self._new(self._grid.sizes[over[-1]])
            self._places[over] = self._step(np.add, (self._step(np.multiply, (before, size)), over[-1]))
        return self._places[over]


def _one_each(value: Any, count: int) -> NDArray[Any]:
    return value if np.shape(value) == (count,) else np.broadcast_to(value, (count,))


def _with_ends(
    steps: Sequence[tuple[int, ArrayOperation, tuple[int, ...]]], kept: set[int]
) -> list[tuple[int, ArrayOperation, Callable[[list[Any]], tuple[Any, ...]], tuple[int, ...]]]:
    """Each step with what finds its operands, and the slots that nobody needs behind it."""
    program, seen = [], set(kept)
    for slot, operation, operands in reversed(steps):
        over = tuple([o for o in operands if o not in seen])
        seen.update(over)
        program.append((slot, operation, _operands_at(operands), over))
    return program[::-1]


def _operands_at(slots: tuple[int, ...]) -> Callable[[list[Any]], tuple[Any, ...]]:
    if len(slots) > 1:
        return itemgetter(*slots)
    (only,) = slots
    return lambda values: (values[only],)


class _Grid:
    """Positions in tables over the domains of some tunables."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self._parts: dict[tuple[Tunables, Tunables], NDArray[np.intp]] = {}
        self._entries: dict[Tunables, int] = {}

    def entries(self, over: Tunables) -> int:
        """Gives the number of entries of a table over these tunables."""
        if over not in self._entries:
            self._entries[over] = prod([self.sizes[n] for n in over])
        return self._entries[over]

    def part(self, inner: Tunables, over: Tunables) -> NDArray[np.intp]:
        """Returns, for each entry of a table, the entry of a table over some of its tunables."""
        if (inner, over) not in self._parts:
            wide = [n for n in over if self.sizes[n] > 1]  # few, as tables are small: arrays have 64 dimensions at most
            axes = dict(
                zip(wide, np.indices([self.sizes[n] for n in wide]).reshape(len(wide), self.entries(over)), strict=True)
            )
            place = np.zeros(self.entries(over), dtype=np.intp)
            for n in inner:
                if n in axes:
                    place = place * self.sizes[n] + axes[n]
            self._parts[inner, over] = place
        return self._parts[inner, over]


def _needed(steps: Sequence[RecordedStep], results: set[int]) -> list[int]:
    """The steps behind some results, in order."""
    needed = set(results)
    for number in range(max(results, default=-1), -1, -1):
        if number in needed:
            for operand in steps[number][1]:
                if type(operand) is Column:
                    needed.add(operand.number)
    return sorted(needed)
