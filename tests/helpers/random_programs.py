"""Hypothesis strategies for random programs: pointwise, broadcast, reductions, matmul-like, stencils, several stages.

    @given(programs())              what people usually write, in one dtype
    @given(any_programs())          that, or what strangers write (foreign_programs.py)
    def test_something(program: Program) -> None: ...

Programs are small (at most about 20,000 points a stage), sizes are ragged, values stay moderate, so that a kernel in
float32 can be compared with the oracle: evaluate(program, random_inputs(program, seed)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hypothesis import strategies as st

from helpers.foreign_programs import foreign_programs
from tilesmith.tensor import build
from tilesmith.tensor.build import compute, placeholder, reduce_axis
from tilesmith.tensor.dtype import DTYPES, DType
from tilesmith.tensor.expr import Expr
from tilesmith.tensor.program import Program, Tensor

SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33)
KINDS = ("pointwise", "reduction", "matmul", "stencil")
MORE_KINDS = (*KINDS, "softmax", "recurrence", "gather", "converted", "pair")
MODEL_KINDS = (*MORE_KINDS, "join", "join", "again", "reshaped")
_POINTS = 20_000
_TERMS = 4_000


@st.composite
def programs(
    draw: st.DrawFn,
    max_stages: int = 3,
    dtypes: Sequence[str] = ("f32", "f64", "i32"),
    kinds: Sequence[str] = KINDS,
    sizes: Sequence[int] = SIZES,
    min_stages: int = 1,
) -> Program:
    """A random program of one dtype, with so many stages of the given kinds (a softmax counts as one).

    MORE_KINDS adds softmax, folds, data-dependent indices, mixed dtypes and stages of two tensors; MODEL_KINDS tensors side by
    side, stages that compute the same as others, and the same memory under another shape. Of these programs every seventh
    tensor is an output, so that most stages count.
    """
    maker = _Maker(draw, DTYPES[draw(st.sampled_from(dtypes))], sizes)
    count = draw(st.integers(min_stages, max_stages))
    for _ in range(count):
        getattr(maker, draw(st.sampled_from(kinds)))()
    if kinds is MODEL_KINDS:
        return build.program(maker.made[::-7])
    outputs = [maker.made[-1]]
    if len(maker.made) > 1 and draw(st.integers(0, 3)) == 0:  # an intermediate tensor that is an output too
        outputs.append(draw(st.sampled_from(maker.made[:-1])))
    return build.program(outputs)


def any_programs(dtypes: Sequence[str] = ("f32", "f64", "i32")) -> st.SearchStrategy[Program]:
    """Programs of all kinds; foreign ones choose their types themselves."""
    return st.one_of(programs(dtypes=dtypes, kinds=MORE_KINDS), foreign_programs())


class _Maker:
    """Adds stages; `made` are the tensors computed so far, of which later stages read."""

    def __init__(self, draw: st.DrawFn, dtype: DType, sizes: Sequence[int]) -> None:
        self._draw = draw
        self._dtype = dtype
        self._sizes = sizes
        self.made: list[Tensor] = []

    def pointwise(self) -> None:
        """An expression of one to three operands, each over some of the axes, in any order."""
        shape = self._shape_to_continue()
        axes_of = [self._operand(shape) for _ in range(self._pick(1, 3))]
        self.made.append(
            compute(shape, lambda *i: self._expression([t[tuple(i[d] for d in dims)] for t, dims in axes_of]))
        )

    def reduction(self) -> None:
        """sum, max, min or prod over some axes of an expression."""
        shape = self._shape_to_continue(minimum_rank=1)
        over = sorted(self._draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
        combiner = self._choose(("sum", "sum", "max", "min", "prod"))
        if combiner == "prod" and prod(shape[d] for d in over) > 16:
            combiner = "sum"
        axes = {d: reduce_axis(shape[d]) for d in over}
        operands = [self._operand(shape) for _ in range(self._pick(1, 2))]
        kept = [d for d in range(len(shape)) if d not in axes]

        def body(*spatial: Expr) -> object:
            place: dict[int, Expr] = {**dict(zip(kept, spatial, strict=True)), **axes}
            value = self._expression([t[tuple(place[d] for d in dims)] for t, dims in operands])
            return getattr(build, combiner)(value, list(axes.values()))

        self.made.append(compute(tuple(shape[d] for d in kept), body))

    def matmul(self) -> None:
        """A product summed over one axis, with or without a batch axis, operands transposed or not, perhaps an epilogue."""
        m, n, k = (self._choose(self._sizes) for _ in range(3))
        batch = (self._pick(1, 4),) if self._pick(0, 3) == 0 else ()
        flip_a, flip_b = self._pick(0, 1), self._pick(0, 1)
        a_shape = batch + ((k, m) if flip_a else (m, k))
        b_shape = batch + ((n, k) if flip_b else (k, n))
        earlier = [t for t in self.made if len(t.shape) == 2 and not batch]
        if earlier and self._pick(0, 1):
            a = self._choose(earlier)
            m, k = a.shape[::-1] if flip_a else a.shape
            b_shape = (n, k) if flip_b else (k, n)
        else:
            a = self._input(a_shape)
        b = self._input(b_shape)
        axis = reduce_axis(k)

        def body(*i: Expr) -> object:
            *outer, row, column = i
            left = a[(*outer, axis, row) if flip_a else (*outer, row, axis)]
            right = b[(*outer, column, axis) if flip_b else (*outer, axis, column)]
            return build.sum(left * right, axis)

        product = compute((*batch, m, n), body)
        self.made.append(product)
        if self._pick(0, 1):
            bias = self._input((n,))
            self.made.append(compute(product.shape, lambda *i: self._expression([product[i], bias[i[-1]]])))

    def stencil(self) -> None:
        """Neighbours along one axis, those outside being zero: summed over a window with weights, or one shifted read."""
        shape = self._shape_to_continue(minimum_rank=1)
        source, dims = self._operand(shape, all_axes=True)
        along = self._pick(0, len(shape) - 1)
        size, step = shape[along], self._pick(1, 2)
        window, padding = self._pick(1, 3), self._pick(0, 2)
        count = (size + 2 * padding - window) // step + 1
        if count < 1:
            window, padding, count = 1, 0, (size - 1) // step + 1

        def read(i: Sequence[Expr], place: Expr) -> Expr:
            index = [place if d == along else i[d] for d in dims]
            return build.select((place >= 0) & (place < size), source[tuple(index)], 0)

        result_shape = tuple(count if d == along else extent for d, extent in enumerate(shape))
        if window == 1:
            self.made.append(compute(result_shape, lambda *i: read(i, i[along] * step - padding)))
            return
        axis, weights = reduce_axis(window), self._input((window,))
        self.made.append(
            compute(result_shape, lambda *i: build.sum(read(i, i[along] * step + axis - padding) * weights[axis], axis))
        )

    def softmax(self) -> None:
        """Softmax along the last axis, as four stages (of integers: their distance to the maximum)."""
        shape = self._shape_to_continue(minimum_rank=1)
        source, dims = self._operand(shape, all_axes=True)
        axis, again = reduce_axis(shape[-1]), reduce_axis(shape[-1])

        def at(*i: Expr) -> Expr:
            return source[tuple(i[d] for d in dims)]

        top = compute(shape[:-1], lambda *i: build.max(at(*i, axis), axis))
        if self._dtype.is_integer:
            self.made += [top, compute(shape, lambda *i: top[i[:-1]] - at(*i))]
            return
        powers = compute(shape, lambda *i: build.exp(at(*i) - top[i[:-1]]))
        total = compute(shape[:-1], lambda *i: build.sum(powers[(*i, again)], again))
        self.made += [top, powers, total, compute(shape, lambda *i: powers[i] / total[i[:-1]])]

    def recurrence(self) -> None:
        """A fold over the last axis: a fading sum, and a count that keeps one axis less."""
        shape = self._shape_to_continue(minimum_rank=2)
        source, dims = self._operand(shape, all_axes=True)
        ordered, rank = reduce_axis(shape[-1]), len(shape) - 1

        def at(*i: Expr) -> Expr:
            return source[tuple((*i, ordered)[d] for d in dims)]

        def step(*given: Expr) -> list[Expr]:
            axes, fading, steps = given[:rank], given[rank], given[rank + 1]
            faded = fading // 2 if self._dtype.is_integer else fading * 0.5
            value = build.named("value", faded + at(*axes))
            return [value, steps + build.cast(ordered, self._dtype)]

        states = [build.State(None, rank, 0, self._dtype), build.State(None, rank - 1, 1, self._dtype)]
        self.made += reversed(build.fold(shape[:-1], ordered, states, step))

    def gather(self) -> None:
        """Rows chosen by the elements of an integer tensor, clamped."""
        rows, columns, count = (self._choose(self._sizes) for _ in range(3))
        source, chosen = self._input((rows, columns)), placeholder((count,), "i32")

        def element(i: Expr, j: Expr) -> Expr:
            return source[build.minimum(build.maximum(chosen[i], 0), rows - 1), j]

        self.made.append(compute((count, columns), element))

    def converted(self) -> None:
        """An operand of another dtype, converted."""
        shape = self._shape_to_continue()
        other = placeholder(shape, self._choose(("f32", "f64", "i32", "i8", "u8", "f16", "bool", "u16", "u64")))
        source, dims = self._operand(shape)

        def element(*i: Expr) -> Expr:
            return self._expression([source[tuple(i[d] for d in dims)], build.cast(other[i], self._dtype)])

        self.made.append(compute(shape, element))

    def pair(self) -> None:
        """One stage of two tensors."""
        shape = self._shape_to_continue()
        (one, dims), (other, places) = self._operand(shape), self._operand(shape)

        def elements(*i: Expr) -> tuple[Expr, Expr]:
            a, b = one[tuple(i[d] for d in dims)], other[tuple(i[d] for d in places)]
            return self._expression([a, b]), self._expression([a])

        self.made += build.compute_several(shape, elements)

    def join(self) -> None:
        """Two or three tensors side by side along their first axis, some of the last ones if they fit."""
        shape = self._shape_to_continue(minimum_rank=1)
        fitting = [t for t in self.made[-12:] if t.shape == shape]
        count = self._pick(2, 3)
        parts = [fitting.pop() if fitting and self._pick(0, 3) else self._window_of(shape) for _ in range(count)]
        size = shape[0]

        def element(first: Expr, *rest: Expr) -> Expr:
            value: Expr = parts[-1][(first - size * (count - 1), *rest)]
            for number in range(count - 2, -1, -1):
                value = build.select(first < size * (number + 1), parts[number][(first - size * number, *rest)], value)
            return value

        joined = compute((size * count, *shape[1:]), element)
        self.made.append(joined)
        if self._pick(0, 2):  # back to a size that others have
            axis = reduce_axis(count)
            self.made.append(compute(shape, lambda i, *rest: build.max(joined[(axis * size + i, *rest)], axis)))

    def _window_of(self, shape: tuple[int, ...]) -> Tensor:
        """A tensor that is stored: the larger of two inputs' elements, as a reduction."""
        source, axis = self._input((2, *shape)), reduce_axis(2)
        self.made.append(compute(shape, lambda *i: build.max(source[(axis, *i)], axis)))
        return self.made[-1]

    def again(self) -> None:
        """Two stages that compute the same, and one that reads both."""
        shape = self._shape_to_continue()
        source, dims = self._operand(shape)
        one, other = (compute(shape, lambda *i: source[tuple(i[d] for d in dims)] + 1) for _ in range(2))
        self.made += [one, other, compute(shape, lambda *i: self._expression([one[i], other[i]]))]

    def reshaped(self) -> None:
        """The newest tensor as a row."""
        shape = self._shape_to_continue(minimum_rank=1)
        source, _ = self._operand(shape, all_axes=True)
        if source.shape != shape:
            source = self._window_of(shape)

        def element(place: Expr) -> Expr:
            index: list[Expr] = []
            for extent in reversed(shape):
                index.insert(0, place % extent)
                place = place // extent
            return source[tuple(index)]

        self.made.append(compute((prod(shape),), element))

    # choices

    def _pick(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def _choose(self, options: Sequence[object]):  # type: ignore[no-untyped-def]
        return self._draw(st.sampled_from(list(options)))

    def _input(self, shape: tuple[int, ...]) -> Tensor:
        make = build.constant if self._pick(0, 4) == 0 else placeholder
        return make(shape, self._dtype)

    def _shape_to_continue(self, minimum_rank: int = 0) -> tuple[int, ...]:
        """The shape of the newest tensor, so that stages hang together, or a new one."""
        if self.made and len(self.made[-1].shape) >= minimum_rank and self._pick(0, 4) > 0:
            return self.made[-1].shape
        shape: list[int] = []
        for _ in range(self._pick(minimum_rank, 3)):
            limit = min(_POINTS // prod(shape), _TERMS)
            shape.append(self._choose([size for size in self._sizes if size <= limit]))
        return tuple(shape)

    def _operand(self, shape: tuple[int, ...], all_axes: bool = False) -> tuple[Tensor, tuple[int, ...]]:
        """(a tensor, the axis of `shape` for each of its dimensions)"""
        newest = self.made[-1] if self.made else None
        if newest is not None and newest.shape == shape and self._pick(0, 2) > 0:
            return newest, tuple(range(len(shape)))
        if (earlier := [tensor for tensor in self.made if tensor.shape == shape]) and self._pick(0, 1):
            return self._choose(earlier), tuple(range(len(shape)))
        everything = list(range(len(shape)))
        dims = everything if all_axes else [d for d in everything if self._pick(0, 3) > 0]
        order = tuple(self._draw(st.permutations(dims)))
        return self._input(tuple(shape[d] for d in order)), order

    def _expression(self, reads: list[Expr]) -> Expr:
        """A moderate expression in which every read occurs."""
        value = reads[0]
        for other in reads[1:]:
            value = self._choose(_BINARY)(value, other)
        unary = _INTEGER if self._dtype.is_integer else _FLOAT
        for _ in range(self._pick(0, 2)):
            value = self._choose(unary)(value)
        return value


_BINARY: list[Callable[[Expr, Expr], Expr]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    build.maximum,
    build.minimum,
    lambda a, b: build.select(a < b, a, b * 2),
]
_INTEGER: list[Callable[[Expr], Expr]] = [
    lambda a: a + 3,
    lambda a: -a,
    build.absolute,
    lambda a: build.maximum(a, 0),
    lambda a: build.select(a > 2, a, 1),
    lambda a: a // 3,
    lambda a: a % 5,
]
_FLOAT: list[Callable[[Expr], Expr]] = [
    lambda a: a * 0.5,
    lambda a: 1 - a,
    build.absolute,
    lambda a: build.maximum(a, 0),
    lambda a: build.select(a > 0.25, a, -0.25),
    build.tanh,
    build.sigmoid,
    build.erf,
    lambda a: build.exp(build.minimum(a, 1)),
    lambda a: build.log(build.absolute(a) + 1),
    lambda a: build.sqrt(build.absolute(a) + 0.5),
    lambda a: 1 / (build.absolute(a) + 1),
]
