"""Loop IR: what a lowered candidate is before it becomes machine code. Frozen nodes; expressions are those of tensor.expr.

    LoopProgram  buffers (arguments first), nests to run once when constants are given, nests to run at each call
    Nest         one parallel region (CPU) or one launch (GPU)

    statement = Block(body)                                statements in order
              | For(var, extent, body, kind, ...)          var = 0 .. extent - 1
              | Let(var, value, body)                      an i64 named once
              | If(condition, then, otherwise)             a run-time branch on a scalar bool
              | Allocate(buffer, body)                     a buffer that lives while body runs
              | Store(buffer, indices, value)              buffer[indices] = value
              | Update(buffer, indices, combiner, value)   buffer[indices] = combiner(buffer[indices], value)
              | Prefetch(buffer, indices, locality)        a hint; any address is allowed
              | Barrier(buffers)                           GPU: all threads of the block meet; what they wrote is seen by all
              | Shuffle(buffer, source, mask)              GPU: buffer = what `source` is in the lane with number xor mask
              | Commit()                                   GPU: the asynchronous stores since the last one are a group
              | Wait(groups)                               GPU: until all but the last `groups` groups have arrived
              | MatrixClear(tiles)                         all tiles of a TILE buffer = 0
              | MatrixMove(tiles, tile, memory, ...)       one tile from memory, or to it
              | MatrixMultiply(tiles, rows, columns, ...)  tiles += products of tiles in memory

Meaning
* `Read` in an expression reads a *buffer*; indices are logical, one for each dimension, row-major strides of `Buffer.shape`;
  an argument may lie in `rows` of a wider tensor, whose other elements are nobody's here.
* Integer arithmetic on indices is i64 and never wraps.
* A loop runs in order. Kinds:
    SERIAL    `unroll` > 1 asks for a main loop with that many copies of the body and a remainder loop.
    UNROLL    constant extent; copies of the body, each with its number for var.
    VECTOR    constant extent, a power of two: all its trips at once, in the lanes of vectors.
    PARALLEL  trips are independent; directly nested PARALLEL loops form one collapsed loop whose trips are divided in
              contiguous, balanced chunks over the threads.
    THREAD    GPU: no loop; this thread's trip is `index`, and `valid` is as below.
* The body of a GPU nest is run by every thread of every block; `BLOCK_INDEX` and `THREAD_INDEX` are bound to their numbers.
  Barriers, shuffles and waits are reached by all threads of the block (of the warp) together.
* `valid` of an UNROLL or VECTOR loop (None: all): only trips with var < valid are real; 1 <= valid, it may exceed the extent.
  The copies for the others still run (the code is full) but must have no effect: their stores to anything but REGISTER
  buffers are masked, and what they read is any element that exists: of an unrolled loop the element of the last real trip,
  in a vector lane nothing at all. Reads of a `padded` buffer need neither.
* `select(c, a, b)` evaluates reads inside `a` only where c holds, and inside `b` only where it does not. Reads elsewhere are
  always in bounds for real trips.
* REGISTER buffers are indexed by UNROLL and VECTOR variables and constants only, so each element (or vector) is a value of its
  own; they carry over SERIAL loops. Reading one before it is stored is an error of the lowering. One of 16-bit floats may
  hold f32 and be rounded where it is read.
* Sums may be contracted (a * b + c rounded once) but are not reassociated. A product with a zero of a TABLE is no term of a
  sum. A quotient by what stays the same in a loop over vectors may be a product with its reciprocal, where that is an
  ordinary number (passes/reciprocals.py).
* The bytes of a buffer with `swizzle` b are exchanged within lines of 128: byte o is at o ^ (((o >> 7) & (2^b - 1)) << 4).
* A TILE buffer is [row tiles, column tiles, m, n]: registers of a matrix unit, touched by Matrix
  statements alone. A tile in memory is m rows of n elements of 32 bits that lie side by side, the rows `pitch` elements apart.
* An asynchronous store copies from an argument to a SHARED buffer; nobody reads it before a Wait and a Barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from operator import is_not

from ...schedules.loops import LoopKind, Scope
from ...tensor.dtype import DType
from ...tensor.expr import Expr, Read, Var
from ..rows import PitchedRows, strides_of

__all__ = [
    "BLOCK_INDEX",
    "THREAD_INDEX",
    "Allocate",
    "Barrier",
    "Block",
    "Buffer",
    "Commit",
    "For",
    "If",
    "Let",
    "LoopKind",
    "LoopProgram",
    "MatrixClear",
    "MatrixMove",
    "MatrixMultiply",
    "Nest",
    "Prefetch",
    "Scope",
    "Shuffle",
    "Statement",
    "Store",
    "Update",
    "Wait",
    "statements",
    "substatements",
]

BLOCK_INDEX = Var("block_index")  # names of loops end in a number
THREAD_INDEX = Var("thread_index")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Storage. `shape` is the allocated one. `padded`: every index that a full register tile forms lies inside."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    scope: Scope
    padded: bool = False
    values: tuple[int | float | bool, ...] = ()  # of a TABLE
    swizzle: int = 0  # of a SHARED buffer
    slots: int = 1  # how many trips of a pipeline it holds, in its first dimension
    rows: PitchedRows | None = None  # of an INPUT or OUTPUT: None where its elements lie side by side

    @property
    def elements(self) -> int:
        """Allocated elements, those between rows among them."""
        return prod(self.shape) if self.rows is None else self.rows.end(prod(self.shape))

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one point of each dimension to the next."""
        return strides_of(self.shape, self.rows)

    @property
    def bytes(self) -> int:
        """Allocated bytes."""
        return self.elements * self.dtype.bytes


class Statement:
    """Base of all statements."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Block(Statement):
    """Statements in order."""

    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class For(Statement):
    """A loop; see the head of this file. `label` names the schedule's loop, for people."""

    var: str
    extent: Expr
    body: Statement
    kind: LoopKind = LoopKind.SERIAL
    unroll: int = 1
    valid: Expr | None = None
    index: Expr | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Let(Statement):
    """Names an i64 value inside body."""

    var: str
    value: Expr
    body: Statement


@dataclass(frozen=True, slots=True)
class If(Statement):
    """A branch on a scalar condition."""

    condition: Expr
    then: Statement
    otherwise: Statement | None = None


@dataclass(frozen=True, slots=True)
class Allocate(Statement):
    """Makes a buffer for the time of body; its contents are undefined at first."""

    buffer: Buffer
    body: Statement


@dataclass(frozen=True, slots=True)
class Store(Statement):
    """buffer[indices] = value. `streaming` asks for a non-temporal store; `later`: an asynchronous one; `ahead`: to the slot of
    a SHARED buffer that the loop around reads from its next trip on, and last read in the trip before."""

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    streaming: bool = False
    later: bool = False
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """buffer[indices] = combiner(buffer[indices], value), combiner in sum prod max min."""

    buffer: str
    indices: tuple[Expr, ...]
    combiner: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Prefetch(Statement):
    """Asks for the cache line of an element; locality 0 (none) .. 3 (keep in all levels)."""

    buffer: str
    indices: tuple[Expr, ...]
    locality: int = 3


@dataclass(frozen=True, slots=True)
class Barrier(Statement):
    """Makes the threads of a block wait for each other; `buffers` are those for whose sake."""

    buffers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Shuffle(Statement):
    """Scalar REGISTER buffers: buffer = the `source` of the lane whose number differs by the bits of `mask`."""

    buffer: str
    source: str
    mask: int


@dataclass(frozen=True, slots=True)
class Commit(Statement):
    """Ends a group of asynchronous stores."""


@dataclass(frozen=True, slots=True)
class Wait(Statement):
    """Waits until at most `groups` groups of this thread's asynchronous stores are on their way."""

    groups: int


@dataclass(frozen=True, slots=True)
class MatrixClear(Statement):
    """All tiles of a TILE buffer are zero."""

    tiles: str


@dataclass(frozen=True, slots=True)
class MatrixMove(Statement):
    """Tile (row, column) of a TILE buffer = the tile in memory whose first element is `memory`; `stores`: the other way."""

    tiles: str
    tile: tuple[int, int]
    memory: Read
    pitch: int
    stores: bool


@dataclass(frozen=True, slots=True)
class MatrixMultiply(Statement):
    """Adds products of tiles of words, by an instruction of the table (targets/matrix_instructions.py), by its name:

        tiles[r, c, m, n] += sum over pairs (p, q), all k of the products of what X[m, k] and Y[k, n] hold

    X = rows[r][p], Y = columns[c][q]: the first elements of tiles in memory, whose rows are the pitches apart. Sums are those
    of the unit: of bf16 in f32, numbers below the normal ones taken as zero; of bytes in i32, modulo 2^32.
    """

    tiles: str
    rows: tuple[tuple[Read, ...], ...]
    columns: tuple[tuple[Read, ...], ...]
    pitches: tuple[int, int]
    pairs: tuple[tuple[int, int], ...]
    instruction: str


@dataclass(frozen=True, slots=True)
class Nest:
    """One root: a parallel region or a launch. `name`: of the stage that it computes.

    `blocks`, `threads`: the size of the launch on a GPU (0 on a CPU).
    """

    name: str
    body: Statement
    blocks: int = 0
    threads: int = 0


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """A whole candidate.

    `arguments`: INPUT, CONSTANT or HELD, and OUTPUT buffers in the order of the calling convention; `globals`: PREPARED,
    WORKSPACE and TABLE buffers. SCRATCH, STACK, REGISTER and SHARED buffers are made by `Allocate` inside the nests.
    """

    name: str
    arguments: tuple[Buffer, ...]
    globals: tuple[Buffer, ...]
    prepare: tuple[Nest, ...]
    nests: tuple[Nest, ...]

    def with_bodies(self, rewrite: Callable[[Statement], Statement]) -> LoopProgram:
        """The same program, the body of each nest rewritten: the same object, if none changes."""
        before = (*self.prepare, *self.nests)
        bodies = [rewrite(nest.body) for nest in before]
        if all(body is nest.body for body, nest in zip(bodies, before, strict=True)):
            return self
        after = tuple(replace(nest, body=body) for body, nest in zip(bodies, before, strict=True))
        return replace(self, prepare=after[: len(self.prepare)], nests=after[len(self.prepare) :])


def statements(statement: Statement) -> Iterator[Statement]:
    """The visitor: every statement, parents before children."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += substatements(node)[::-1]


def substatements(statement: Statement) -> tuple[Statement, ...]:
    """The direct substatements. Raises TypeError for a node that is not in the grammar."""
    match statement:
        case Block(body=body):
            return body
        case For(body=inner) | Let(body=inner) | Allocate(body=inner):
            return (inner,)
        case If(then=then, otherwise=otherwise):
            return (then,) if otherwise is None else (then, otherwise)
        case Store() | Update() | Prefetch() | Barrier() | Shuffle() | Commit() | Wait():
            return ()
        case MatrixClear() | MatrixMove() | MatrixMultiply():
            return ()
    raise TypeError(f"unknown statement {type(statement).__name__}")


def with_substatements(statement: Statement, changed: Callable[[Statement], Statement]) -> Statement:
    """The statement, its direct substatements changed: the same object, if none is."""
    match statement:
        case Block(body=body):
            parts = tuple([changed(part) for part in body])
            return Block(parts) if any(map(is_not, body, parts)) else statement
        case For(body=inner) | Let(body=inner) | Allocate(body=inner):
            new = changed(inner)
            return statement if new is inner else replace(statement, body=new)
        case If(then=then, otherwise=otherwise):
            new, other = changed(then), None if otherwise is None else changed(otherwise)
            return statement if new is then and other is otherwise else replace(statement, then=new, otherwise=other)
    return statement
