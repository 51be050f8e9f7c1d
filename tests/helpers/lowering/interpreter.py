"""Runs loop IR, one point at a time: its meaning as a program, slow and obvious. It counts, and it forgives nothing.

Every trip of every labelled loop is counted, and every store whose nearest loop is a labelled one. Every access is checked
against its buffer; memory is poisoned before it is written, and reading what was never written in registers is an error.
Code generators and the batched analysis are tested against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tilesmith.codegen.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopKind,
    LoopProgram,
    MatrixClear,
    MatrixMove,
    MatrixMultiply,
    Prefetch,
    Scope,
    Statement,
    Store,
    Update,
)
from tilesmith.targets.matrix_instructions import MATRIX_INSTRUCTIONS
from tilesmith.tensor.dtype import bf16
from tilesmith.tensor.expr import Cast, Const, Expr, Op, Read, Var
from tilesmith.tensor.language import MATHEMATICS, OPERATORS


def _bf16(value: float) -> np.uint32:
    """The bits of a number, not NaN, rounded to bfloat16."""
    bits = int(np.float32(value).view(np.uint32))
    return np.uint32(bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000)


def _of_words(name: str) -> Callable[..., Any]:
    """An operator on words as the oracle has it, of single numbers."""

    def apply(*args: int) -> float:
        return OPERATORS[name].value(*(np.int64(arg).astype(np.int32) for arg in args)).item()  # type: ignore[no-any-return]

    return apply


_WORDS = (
    "byte_quad", "half_pair", "signed_halves", "half_add", "quad_dot", "small_quad_dot", "pair_sums", "pair_dot",
    "bf16_dot",
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "neg": lambda a: -a, "min": np.minimum, "max": np.maximum, "abs": abs,
    "and": lambda a, b: bool(a) and bool(b), "or": lambda a, b: bool(a) or bool(b), "not": lambda a: not a,
    **{name: entry.value for name, entry in MATHEMATICS.items()},
    **{name: _of_words(name) for name in _WORDS},
    "bf16_pair": lambda a, b: int((_bf16(a) >> 16 | _bf16(b)).view(np.int32)),
    "bf16_word": lambda a, b: int((_bf16(a) >> 16 | _bf16(b)).view(np.int32)),
    "bf16_near": lambda a: (np.float32(a).view(np.uint32) + np.uint32(0x8000) & np.uint32(0xFFFF0000)).view(np.float32),
    "bf16_low": lambda a: (np.uint32(a & 0xFFFFFFFF) << np.uint32(16)).view(np.float32),
    "bf16_high": lambda a: np.uint32(a & 0xFFFF0000).view(np.float32),
}  # fmt: skip
_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_DEEP = 40  # expressions inside of one another that are one text: Python reads no more than 200 parentheses
Meaning = Callable[
    [dict[str, int], bool], Any
]  # of an expression: its value for these variables, in a lane that counts or not
Action = Callable[[dict[str, int], bool], None]  # of a statement: what it does for these variables
Made = tuple[dict[int, Action], dict[int, Meaning]]
COMBINE = {"sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "max": max, "min": min}


@dataclass
class Interpreter:
    """Runs a LoopProgram on arrays.

    trips: loop name -> how often its body ran, masked trips included.
    stores: (loop name, buffer) -> how many stores and updates of the buffer ran with that loop as the nearest one around.
    """

    program: LoopProgram
    trips: Counter[str] = field(default_factory=Counter)
    stores: Counter[tuple[str, str]] = field(default_factory=Counter)
    memory: dict[str, Any] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    allocated: dict[str, Buffer] = field(default_factory=dict)
    hints: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    _nearest: str = ""
    _actions: dict[int, Action] = field(default_factory=dict)
    _meanings: dict[int, Meaning] = field(default_factory=dict)

    def run(self, arguments: list[np.ndarray]) -> None:
        """Runs the prepare nests, then the others. Arguments in the order of the program's."""
        for buffer, array in zip(self.program.arguments, arguments, strict=True):
            assert array.shape == buffer.shape, (buffer, array.shape)
            self.memory[buffer.name] = array
            self.buffers[buffer.name] = buffer
        for buffer in self.program.globals:
            self._make(buffer)
        with np.errstate(all="ignore"):
            for nest in (*self.program.prepare, *self.program.nests):
                self._run(nest.body, {}, True)

    def _make(self, buffer: Buffer) -> None:
        self.buffers[buffer.name] = buffer
        self.allocated[buffer.name] = buffer
        if buffer.scope is Scope.TABLE:
            self.memory[buffer.name] = np.array(buffer.values, buffer.dtype.numpy).reshape(buffer.shape)
        elif buffer.scope is Scope.REGISTER:
            self.memory[buffer.name] = {}
        else:
            poison = np.nan if buffer.dtype.is_float else 77
            self.memory[buffer.name] = np.full(buffer.shape, poison).astype(buffer.dtype.numpy)

    def _run(self, node: Statement, env: dict[str, int], active: bool) -> None:
        self._action(node)(env, active)

    def _action(self, node: Statement) -> Action:
        """What a statement does, as a function made once, where its buffers are in scope: loops run it again and again."""
        found = self._actions.get(id(node))  # the program holds it, so that no other has this identity
        if found is None:
            found = self._actions[id(node)] = self._acting(node)
        return found

    def _acting(self, node: Statement) -> Action:
        match node:
            case Block(body=body):
                return self._sequence([self._action(child) for child in body])
            case For():
                return partial(self._loop, node)
            case Store(buffer=name, indices=indices, value=value):
                return self._writing(name, indices, value, None)
            case Update(buffer=name, indices=indices, combiner=combiner, value=value):
                return self._writing(name, indices, value, COMBINE[combiner])
            case Let(var=var, value=value, body=body):
                named, inside = self._meaning(value), self._action(body)
                return lambda env, active: inside({**env, var: int(named(env, active))}, active)
            case If():
                return partial(self._if, node, self._meaning(node.condition))
            case Allocate():
                return partial(self._allocate, node, ({}, {}))
            case Prefetch() | MatrixClear() | MatrixMove() | MatrixMultiply():
                return lambda env, active: self._rare(node, env)
        raise TypeError(type(node).__name__)

    def _sequence(self, actions: list[Action]) -> Action:
        def run(env: dict[str, int], active: bool) -> None:
            for action in actions:
                action(env, active)

        return run

    def _if(self, node: If, condition: Meaning, env: dict[str, int], active: bool) -> None:
        if condition(env, active):
            self._run(node.then, env, active)
        elif node.otherwise is not None:
            self._run(node.otherwise, env, active)

    def _allocate(self, node: Allocate, own: Made, env: dict[str, int], active: bool) -> None:
        """What is made for the body is made for this buffer: elsewhere another may have its name."""
        around, (self._actions, self._meanings) = (self._actions, self._meanings), own
        self._make(node.buffer)
        self._run(node.body, env, active)
        self._actions, self._meanings = around

    def _rare(self, node: Prefetch | MatrixClear | MatrixMove | MatrixMultiply, env: dict[str, int]) -> None:
        match node:
            case Prefetch(buffer=name, indices=indices):
                self.hints.append((name, tuple(int(self._value(index, env, True)) for index in indices)))
            case MatrixClear(tiles=name):
                self.memory[name] = np.zeros(self.buffers[name].shape, np.float32)
            case MatrixMove(tiles=name, tile=tile, memory=memory, pitch=pitch, stores=stores):
                if stores:
                    self._tile(memory, pitch, env)[:] = self.memory[name][tile]
                else:
                    self.memory[name][tile] = self._tile(memory, pitch, env)
            case MatrixMultiply():
                self._multiply(node, env)

    def _tile(self, memory: Read, pitch: int, env: dict[str, int]) -> np.ndarray:
        """A view of the 16 rows of 64 bytes of a tile in memory; all of them lie inside of the buffer."""
        buffer = self.buffers[memory.tensor]
        place = tuple(int(self._value(i, env, True)) for i in memory.indices)
        self._check(buffer, place)
        flat = self.memory[memory.tensor].reshape(-1)
        first = int(np.ravel_multi_index(place, buffer.shape))
        size = flat.itemsize
        assert first + 15 * pitch + 64 // size <= flat.size, (buffer, place)
        return np.lib.stride_tricks.as_strided(flat[first:], (16, 64 // size), (size * pitch, size))

    def _multiply(self, node: MatrixMultiply, env: dict[str, int]) -> None:
        row = MATRIX_INSTRUCTIONS[node.instruction]

        def held(read: Read, pitch: int, kind: str) -> list[np.ndarray]:
            """What words hold, the first elements of all, then the second ones, .."""
            tile = self._tile(read, pitch, env)
            if tile.shape == (16, 16):
                words = tile.astype(np.int32).view(np.uint32)
            else:  # elements that are words where they lie
                words = np.ascontiguousarray(tile).view(np.uint32)
            if kind == "bf16":
                return [(words << 16).view(np.float32), (words & 0xFFFF0000).view(np.float32)]
            return [(words >> 8 * n & 255).astype(np.uint8).view(f"{kind[0]}1").astype(np.int32) for n in range(4)]

        for r, rows in enumerate(node.rows):
            for c, columns in enumerate(node.columns):
                for p, q in node.pairs:
                    x, y = held(rows[p], node.pitches[0], row.a), held(columns[q], node.pitches[1], row.b)
                    self.memory[node.tiles][r, c] += sum(a @ b for a, b in zip(x, y, strict=True))

    def _loop(self, node: For, env: dict[str, int], active: bool) -> None:
        extent = int(self._value(node.extent, env, True))
        valid = extent if node.valid is None else int(self._value(node.valid, env, True))
        assert extent >= 0, f"{node.var}: extent is {extent}"
        assert not active or valid >= 1 or extent == 0, f"{node.var}: valid is {valid}"
        outer, _, name = node.label.rpartition("+")
        self.trips[name] += extent
        if outer:  # one loop for two: the outer one steps by `unroll`
            self.trips[outer] += -(-extent // node.unroll)
        if node.kind in (LoopKind.UNROLL, LoopKind.VECTOR):
            assert isinstance(node.extent, Const), node.extent
        around, self._nearest = self._nearest, name
        inside, body, var = {**env}, self._action(node.body), node.var
        for trip in range(extent):
            inside[var] = trip
            body(inside, active and trip < valid)
        self._nearest = around

    def _writing(
        self, name: str, indices: tuple[Expr, ...], value: Expr, combine: Callable[[Any, Any], Any] | None
    ) -> Action:
        buffer, stores, memory = self.buffers[name], self.stores, self.memory
        place_of, value_of, inside = self._place(indices), self._meaning(value), _inside(buffer.shape)
        register = buffer.scope is Scope.REGISTER
        may = buffer.scope not in (Scope.INPUT, Scope.CONSTANT, Scope.HELD, Scope.TABLE)

        def write(env: dict[str, int], active: bool) -> None:
            stores[self._nearest, name] += 1
            place, result = place_of(env, active), value_of(env, active)
            if not (register or active):
                return
            assert may, name
            if not inside(place):
                raise AssertionError((buffer, place))
            held = memory[name]
            held[place] = result if combine is None else combine(held[place], result)

        return write

    def _check(self, buffer: Buffer, place: tuple[int, ...]) -> None:
        if not _inside(buffer.shape)(place):
            raise AssertionError((buffer, place))

    def _value(self, expr: Expr, env: dict[str, int], active: bool) -> Any:
        return self._meaning(expr)(env, active)

    def _meaning(self, expr: Expr) -> Meaning:
        """What an expression says, as a function of Python made once: loops ask for its value again and again."""
        found = self._meanings.get(id(expr))  # the program holds it, so that no other has this identity
        if found is None:
            names: dict[str, Any] = {}
            found = self._meanings[id(expr)] = eval(f"lambda env, active: {self._source(expr, names, 0)}", names)
        return found

    def _place(self, indices: tuple[Expr, ...]) -> Meaning:
        """Where a statement writes, as a function."""
        names: dict[str, Any] = {}
        place = "".join(f"int({self._source(index, names, 1)}), " for index in indices)
        return eval(f"lambda env, active: ({place})", names)  # type: ignore[no-any-return]

    def _source(self, expr: Expr, names: dict[str, Any], depth: int) -> str:
        """Python for an expression; what it needs is put into `names`."""

        def named(value: Any) -> str:
            name = f"n{len(names)}"
            names[name] = value
            return name

        if depth > _DEEP:
            return f"{named(self._meaning(expr))}(env, active)"
        below = partial(self._source, names=names, depth=depth + 1)
        match expr:
            case Const(value=value, dtype=dtype):
                return named(value if not dtype.is_float or dtype == bf16 else dtype.numpy.type(value))
            case Var(name=name):
                return f"env[{name!r}]"
            case Read(tensor=name, indices=indices):
                return f"{named(self._reading(name))}(active, {', '.join(map(below, indices))})"
            case Op(name="select", args=(condition, yes, no)):
                return f"({below(yes)} if {below(condition)} else {below(no)})"
            case Op(name=name, args=args) if name in _SIGNS:
                return f"({f' {_SIGNS[name]} '.join(map(below, args))})"
            case Op(name=name, args=args):
                return f"{named(_FUNCTIONS[name])}({', '.join(map(below, args))})"
            case Cast(arg=arg, dtype=dtype):
                return f"{named(dtype.numpy.type)}({below(arg)})"
        raise TypeError(type(expr).__name__)

    def _reading(self, name: str) -> Callable[..., Any]:
        """A function of whether the lane counts and of indices: the element, which must be there."""
        buffer = self.buffers[name]

        def outside(*place: int) -> None:
            raise AssertionError((buffer, place))

        indices = [f"i{number}" for number in range(len(buffer.shape))]
        place = "".join(f"{index}, " for index in indices)
        inside = " and ".join(f"0 <= {i} < {e}" for i, e in zip(indices, buffer.shape, strict=True)) or "True"
        known = {"memory": self.memory, "name": name, "nothing": buffer.dtype.numpy.type(0), "outside": outside}
        idle = "" if buffer.padded else "nothing if not active else "
        text = f"lambda active, {place}: {idle}memory[name][({place})] if {inside} else outside({place})"
        return eval(text, known)  # type: ignore[no-any-return]


@lru_cache(maxsize=1 << 10)
def _inside(shape: tuple[int, ...]) -> Callable[[tuple[int, ...]], bool]:
    """Says whether a place lies in a buffer of this shape."""
    names = [f"i{number}" for number in range(len(shape))]
    text = " and ".join(f"0 <= {name} < {size}" for name, size in zip(names, shape, strict=True)) or "True"
    unpacked = "".join(f"{name}, " for name in names)
    scope: dict[str, Any] = {}
    exec(f"def inside(place):\n    ({unpacked}) = place\n    return {text}", scope)
    return scope["inside"]  # type: ignore[no-any-return]
