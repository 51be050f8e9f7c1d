"""Expressions of loop IR in the context of a place in the code: what each variable is bound to, which lanes are real, which
conditions hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import copysign
from typing import NamedTuple

from ...common.errors import InternalError
from ...targets.target import Target
from ...tensor.dtype import f32, i64
from ...tensor.expr import Cast, Const, Expr, Op, Read, Var, variables, walk
from ...tensor.indices.affine import Affine, affine
from ...tensor.indices.intervals import interval, interval_of_form
from ...tensor.indices.operator_ranges import may_wrap
from ...tensor.language import COMPARISONS
from ...tensor.stage_edits import factors
from ...tensor.wholes import whole
from ..ir.loop_ir import Buffer, Scope
from ..rows import PitchedRows
from .bf16_words import pair
from .extrema import extremum_of, several
from .gpu_memory import GpuMemory
from .index import Index, IndexArithmetic
from .lookups.narrow_index import is_narrow, narrow
from .lookups.table import ENTRIES, look_up, looks_up, lookup_of
from .lookups.window import load_window
from .memory import BufferPointer, Memory
from .module_text import ModuleText
from .packing import OF_BF16, PACKS, before_rounding, elements_of, is_bf16, load_halves, load_words, spread_byte
from .registers import Registers
from .rounding import rounded_integer, rounded_integer_of, rounds_to_integers
from .strided import ALONE, Near
from .text import FunctionText
from .types import Value, literal
from .values import Arithmetic

_INDEX_OPERATORS = frozenset(("add", "sub", "neg", "mul", "floordiv", "mod", "min", "max"))


class Binding(NamedTuple):
    """Holds what a variable stands for. In copies of an unrolled body that are no real trips, `real` is the last real trip."""

    exact: Index
    real: Index


class Expressions:
    """Evaluates expressions into one function."""

    def __init__(self, text: FunctionText, module: ModuleText, target: Target) -> None:
        self.text = text
        self.module = module
        self.target = target
        self.arithmetic = Arithmetic(text, module, target)
        self.indices = IndexArithmetic(text, self.arithmetic)
        self.memory: Memory = (GpuMemory if target.is_gpu else Memory)(text, self.arithmetic, self.indices)
        self.registers = Registers(self.arithmetic)
        self.bindings: dict[str, Binding] = {}
        self.places: dict[str, BufferPointer] = {}
        self.exact = False  # whether indices are those of the copy itself, real or not
        self.guard: Value | None = None  # a condition of select or of a masked branch under which reads stand
        self.ranges: Mapping[str, tuple[int, int]] = {}  # of variables, as far as they are known
        self.mask: Value | None = None  # the real lanes
        self.written: Mapping[str, int] = {}  # trips of loops of which all copies of what stands here are written out
        # by id: the program keeps its nodes alive, and hashing them again and again would cost more than the rest
        self._forms: dict[int, Affine] = {}
        self._places: dict[tuple[int, tuple[int, ...], PitchedRows | None], Affine] = {}
        self._reading: dict[int, bool] = {}
        self._inside: dict[int, bool] = {}
        self._narrow_ranges: dict[int, tuple[int, int] | None] = {}
        self.private: frozenset[str] = frozenset()  # REGISTER buffers allocated inside of the vector loop being written

    # Indices

    def index(self, expr: Expr) -> Index:
        """An i64 expression as an index."""
        if type(expr) is Var:
            return self._bound(expr.name)
        form = self._forms.get(id(expr))
        if form is None:
            form = self._forms[id(expr)] = affine(expr)
        return self._evaluate(form)

    def locate(self, indices: tuple[Expr, ...], buffer: Buffer) -> Index:
        """Gives the number of the element of `buffer` at these indices, counted from its first."""
        key = (id(indices), buffer.shape, buffer.rows)
        form = self._places.get(key)
        if form is None:
            form = Affine((), 0)
            for stride, expr in zip(reversed(buffer.strides), reversed(indices), strict=True):
                form = form.plus(affine(expr), stride)
            self._places[key] = form
        return self._evaluate(form)

    def locate_exact(self, indices: tuple[Expr, ...], buffer: Buffer) -> Index:
        """The number of the element for the copy itself, be it a real trip or not."""
        before, self.exact = self.exact, True
        result = self.locate(indices, buffer)
        self.exact = before
        return result

    def _bound(self, name: str) -> Index:
        binding = self.bindings.get(name)
        if binding is None:
            raise InternalError(f"the loop variable {name!r} is used outside of its loop")
        return binding.exact if self.exact else binding.real

    def _evaluate(self, form: Affine) -> Index:
        constant, lane = form.constant, 0
        parts: list[tuple[Index, int]] = []
        for atom, times in form.terms:
            index = self._bound(atom.name) if type(atom) is Var else self._atom(atom)
            if index.terms or index.vector:
                parts.append((index, times))
            else:  # unrolled and vector loops: most of what is evaluated, so it is added here
                constant += times * index.constant
                lane += times * index.lane
        if not parts:
            return Index(constant, (), lane)
        if lane:
            parts.append((Index(0, (), lane), 1))
        return self.indices.total(parts, constant)

    def _atom(self, expr: Expr) -> Index:
        """Evaluates a part of an index that is no sum: quotients and bounds are folded where their operands are known."""
        if self.indices.lanes and not self.exact and (found := self._narrow(expr)) is not None:
            return found
        if isinstance(expr, Op) and expr.name in _INDEX_OPERATORS and len(expr.args) == 2 and not may_wrap(expr):
            left, right = (self.index(arg) for arg in expr.args)
            if expr.name in ("min", "max"):
                return self.indices.bound(expr.name, left, right)
            if expr.name == "mul":
                for this, other in ((left, right), (right, left)):
                    if this.is_constant:
                        return self.indices.total(((other, this.constant),))
            if expr.name in ("floordiv", "mod") and right.is_constant and right.constant > 0:
                return self.indices.divide(expr.name, left, right.constant)
            operands = [self.indices.value(left), self.indices.value(right)]
            return self.indices.from_value(self.arithmetic.apply(expr.name, operands, i64))
        return self.indices.from_value(self.value(expr))

    def _narrow(self, expr: Expr) -> Index | None:
        """A part of an index that data say, of which the range is known."""
        if id(expr) not in self._narrow_ranges:
            known = not self.target.is_gpu and self._reads(expr) and is_narrow(expr)
            self._narrow_ranges[id(expr)] = interval(expr, self.ranges) if known else None
        within = self._narrow_ranges[id(expr)]
        if within is None:
            return None
        found = self.indices.from_value(self.arithmetic.cast(narrow(self.arithmetic, expr, self.value), i64))
        if found.vector:
            self.indices.ranges[found.vector] = within
        return found

    def _reads(self, expr: Expr) -> bool:
        reading = self._reading.get(id(expr))
        if reading is None:
            reading = self._reading[id(expr)] = any(isinstance(node, Read) for node in walk(expr))
        return reading

    # Values

    def value(self, expr: Expr) -> Value:
        """The expression as a scalar, or in lanes where it differs from lane to lane."""
        match expr:
            case Const(value=number, dtype=dtype):
                return Value(literal(number, dtype), dtype)
            case Var():
                return self.indices.value(self._bound(expr.name))
            case Read():
                return self._read(expr)
            case Cast(arg=arg, dtype=dtype):
                if isinstance(arg, Op) and (found := self._looked_up(expr) or self._rounded(expr)) is not None:
                    return found
                return self.arithmetic.cast(self.value(arg), dtype)
            case Op(name=name, args=args, dtype=dtype):
                if name == "select":
                    return self._select(*args)
                if dtype == i64 and name in _INDEX_OPERATORS and not may_wrap(expr):
                    return self.indices.value(self.index(expr))
                if name in COMPARISONS and args[0].dtype == i64:
                    far = may_wrap(Op("sub", args, i64))
                    return self.indices.compare(name, self.index(args[0]), self.index(args[1]), far)
                if name in PACKS and (packed := self._packed(expr)) is not None:
                    return packed
                if not self.target.is_gpu and (operands := several(expr)) is not None:
                    return extremum_of(self.arithmetic, name, map(self.value, operands))
                if (named := whole(expr)) is not None:
                    return self.arithmetic.apply(named[0], [self.value(named[1])], dtype)
                return self.arithmetic.apply(name, [self.value(arg) for arg in args], dtype)
        raise InternalError(f"no code for the expression node {type(expr).__name__}")

    def _packed(self, node: Op) -> Value | None:
        """A word of elements that lie side by side is loaded as it is; one of two bfloat16 needs no rounding."""
        elements = None if self.guard is not None else elements_of(node)
        if elements is not None and not self.target.is_gpu:
            place, flip = self.place(elements.reads[0].tensor), spread_byte(elements.added, PACKS[node.name])
            if flip is not None and place.buffer.scope not in (Scope.REGISTER, Scope.TABLE):
                first, *others = (self.locate(read.indices, place.buffer) for read in elements.reads)
                if others == [first.shifted(n + 1) for n in range(len(others))]:
                    guards = [None if guard is None else self.value(guard) for guard in elements.guards]
                    load = load_halves if elements.widens else load_words
                    loaded = load(self.memory, place, first, self.mask, guards)
                    if loaded is not None:
                        return self.arithmetic.flipped(loaded, flip) if flip else loaded
        if node.name in OF_BF16:
            halves = [self._known_arm(arg) for arg in node.args]
            known = all(map(is_bf16, halves))
            low, high = (self.value(arg if known else before_rounding(arg)) for arg in halves)
            if known:
                return pair(self.arithmetic, low, high, exact=True)
            return self.arithmetic.apply(node.name, [low, high], node.dtype)
        return None

    def _looked_up(self, node: Cast) -> Value | None:
        """A float of four bits of an integer in lanes, where one instruction finds it."""
        found = lookup_of(node, self._arm) if looks_up(self.arithmetic) else None
        index = None if found is None else self.value(found.index)
        if found is None or index is None or index.lanes != ENTRIES:
            return None
        value = look_up(self.arithmetic, index, found.values)
        if found.less is None:
            return value
        return self.arithmetic.apply("sub", [value, self.arithmetic.cast(self.value(found.less), f32)], f32)

    def _rounded(self, node: Cast) -> Value | None:
        """A narrow integer of a rounded number, where one instruction rounds vectors to integers."""
        found = None if self.target.is_gpu else rounded_integer_of(node)
        if found is None:
            return None
        value = self.value(found.rounded)
        if not rounds_to_integers(self.arithmetic, value):
            return None
        added = found.added.arg if isinstance(found.added, Cast) else found.added
        moved = None if added is None else self.value(added)
        return self.arithmetic.cast(rounded_integer(self.arithmetic, value, moved, found), node.dtype)

    def _arm(self, node: Op) -> Expr | None:
        """The arm of a select whose condition is known."""
        condition, yes, no = node.args
        chosen = self.value(condition)
        return (yes if chosen.text == "true" else no) if chosen.is_literal else None

    def _known_arm(self, expr: Expr) -> Expr:
        """An expression without selects whose conditions are known."""
        while isinstance(expr, Op) and expr.name == "select" and (arm := self._arm(expr)) is not None:
            expr = arm
        return expr

    def _select(self, condition: Expr, yes: Expr, no: Expr) -> Value:
        chosen = self.value(condition)
        if chosen.is_literal:
            with self.apart():
                return self.value(yes if chosen.text == "true" else no)
        value, guard = self._under(chosen, yes), self.arithmetic.both(self.guard, chosen)
        if guard is not None and _is_zero(no) and self.memory.is_zero_without(value, guard):
            return value
        return self.arithmetic.select(chosen, value, self._under(chosen, no, negate=True))

    def _under(self, condition: Value, expr: Expr, negate: bool = False) -> Value:
        if not self._reads(expr):
            return self.value(expr)
        with self.guarded(self.arithmetic.negation(condition) if negate else condition):
            return self.value(expr)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Forgets what other copies of the body read: a choice that is known has been made, and theirs may be another."""
        before, self.written = self.written, {}
        yield
        self.written = before

    @contextmanager
    def guarded(self, condition: Value) -> Iterator[None]:
        """Reads are only done where the condition holds."""
        before = self.guard
        self.guard = self.arithmetic.both(before, condition)
        yield
        self.guard = before

    def _read(self, node: Read) -> Value:
        place = self.place(node.tensor)
        buffer = place.buffer
        if buffer.scope is Scope.REGISTER:
            held = self.registers.get(buffer, self.register_key(buffer, node.indices))
            return self.arithmetic.cast(held, buffer.dtype)
        if buffer.padded and self.guard is None:
            return self.memory.load(place, self.locate_exact(node.indices, buffer), None, None)
        if buffer.scope is Scope.TABLE:
            element = self._table_value(node)
            if element is not None:
                return Value(literal(element, buffer.dtype), buffer.dtype)
        before, self.exact = self.exact, False  # what stands in an exact index is read where something is
        index = self.locate(node.indices, buffer)
        self.exact = before
        guard = self._needed_guard(node, buffer)
        if guard is None and self.mask is None and self._is_window(node, buffer, index):
            found = load_window(self.memory, place, index)
            if found is not None:
                return found
        return self.memory.load(place, index, guard, self.mask, self._near(node, buffer))

    def _is_window(self, node: Read, buffer: Buffer, index: Index) -> bool:
        """Says whether data say where each lane reads, and all that they can say exists."""
        return index.vector in self.indices.ranges and self._is_inside(node, buffer)

    def _near(self, node: Read, buffer: Buffer) -> Near:
        """Says how many elements before and behind one are read as well, by other copies of a body that all run."""
        most = ALONE
        if self.written and self.guard is None:
            terms = self._places[id(node.indices), buffer.shape, buffer.rows].terms
            others = frozenset().union(
                *(variables(atom) for atom, times in terms if times != 1 or not isinstance(atom, Var))
            )
            for name in (atom.name for atom, times in terms if times == 1 and isinstance(atom, Var)):
                copy = self.bindings[name].exact
                if name in self.written and name not in others and copy.is_constant:
                    most = max(most, (copy.constant, self.written[name] - 1 - copy.constant), key=sum)
        return most

    def _needed_guard(self, node: Read, buffer: Buffer) -> Value | None:
        """The guard, unless it differs from lane to lane, is not known now, and what is read exists in any case: then to read
        it and not to choose it is less work than a mask."""
        guard = self.guard
        if guard is None or not guard.lanes or guard.text in self.arithmetic.known.masks or not self.ranges:
            return guard
        return None if self._is_inside(node, buffer) else guard

    def _is_inside(self, node: Read, buffer: Buffer) -> bool:
        """Says whether an element that was located exists whatever data say."""
        inside = self._inside.get(id(node))
        if inside is None:
            low, high = interval_of_form(self._places[id(node.indices), buffer.shape, buffer.rows], self.ranges)
            inside = self._inside[id(node)] = low >= 0 and high < buffer.elements
        return inside

    def is_no_term(self, product: Expr) -> bool:
        """True for a product with a zero of a table in it, known now: it is left out of sums."""
        return any(self._table_value(factor) == 0 for factor in factors(product) if isinstance(factor, Read))

    def _table_value(self, node: Read) -> int | float | bool | None:
        """The element of a table, where it is known which one."""
        buffer = self.place(node.tensor).buffer
        if buffer.scope is not Scope.TABLE:
            return None
        index = self.locate(node.indices, buffer)
        known = index.is_constant and 0 <= index.constant < buffer.elements
        return buffer.values[index.constant] if known else None

    def place(self, name: str) -> BufferPointer:
        """Finds the buffer of that name."""
        place = self.places.get(name)
        if place is None:
            raise InternalError(f"the buffer {name!r} is used where it does not exist")
        return place

    def register_key(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[int, int, int]:
        """(first element, step from lane to lane, lanes) of a REGISTER access."""
        index = self.locate_exact(indices, buffer)
        if index.terms or index.vector:
            raise InternalError(
                f"the register buffer {buffer.name!r} is indexed by what is not known when the code is written",
                advice="index it by unrolled and vector loop variables and constants only",
            )
        if index.lane:
            return index.constant, index.lane, self.indices.lanes
        return index.constant, 0, self._private_lanes(buffer)

    def _private_lanes(self, buffer: Buffer) -> int:
        """Lanes of an element that each trip of the vector loop around it has for its own."""
        return self.indices.lanes if buffer.name in self.private else 0


def _is_zero(expr: Expr) -> bool:
    """True for a literal whose bits are all 0."""
    return isinstance(expr, Const) and not expr.value and copysign(1.0, expr.value) > 0.0
