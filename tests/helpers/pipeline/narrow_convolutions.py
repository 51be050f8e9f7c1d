"""Convolutions of narrow elements that a seed draws, and what they are in NumPy; no code is shared with the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

Array = NDArray[Any]
KINDS = (("u8", "i8"), ("i8", "i8"), ("u8", "u8"), ("i8", "u8"), ("i16", "i16"), ("u8", "i16"), ("bf16", "bf16"))
FINISHED = ("plain", "quantised", "rounded")
SCALE = 0.0123


@dataclass(frozen=True, slots=True)
class NarrowConvolution:
    """One convolution. `last`: channels last in memory; `groups`: up to as many as channels; `border`: what lies outside."""

    kinds: tuple[str, str]
    channels: int
    outputs: int
    side: tuple[int, int]
    kernel: tuple[int, int]
    stride: int
    dilation: int
    padding: int
    groups: int
    last: bool
    border: int
    finished: str
    constant: bool

    @property
    def counts(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        reach = [self.dilation * (k - 1) + 1 for k in self.kernel]
        rows, columns = [(n + 2 * self.padding - r) // self.stride + 1 for n, r in zip(self.side, reach, strict=True)]
        return rows, columns

    def program(self) -> Program:
        """The convolution as text."""
        (a, b), (h, w), (kh, kw), (p, q) = self.kinds, self.side, self.kernel, self.counts
        inner, outer = self.channels // self.groups, self.outputs // self.groups
        wide = "f32" if a == "bf16" else "i32"
        row, column = (
            f"{self.stride} * {x} + {self.dilation} * {r} - {self.padding}" for x, r in (("p", "r"), ("q", "s"))
        )
        channel = "c" if self.groups == 1 else f"o // {outer} * {inner} + c"
        inside = f"{row} >= 0 and {row} < {h} and {column} >= 0 and {column} < {w}"
        places = ", ".join((row, column, channel) if self.last else (channel, row, column))
        read = f"X[{places}]"
        read = f"select({inside}, {read}, {self.border})" if self.padding else read
        x = f"{h}, {w}, {self.channels}" if self.last else f"{self.channels}, {h}, {w}"
        weights = f"{kh}, {kw}, {inner}, {self.outputs}" if self.last else f"{self.outputs}, {inner}, {kh}, {kw}"
        at = "r, s, c, o" if self.last else "o, c, r, s"
        axes = f"p: {p}, q: {q}, o: {self.outputs}" if self.last else f"o: {self.outputs}, p: {p}, q: {q}"
        result = "p, q, o" if self.last else "o, p, q"
        lines = [f"input X: {a}[{x}]", f"{'constant' if self.constant else 'input'} W: {b}[{weights}]"]
        lines += [f"Y[{axes}] = sum[c: {inner}, r: {kh}, s: {kw}]({wide}({read}) * {wide}(W[{at}]))"]
        if self.finished == "quantised":
            lines += [f"Z[{axes}] = u8(min(max(round(f32(Y[{result}]) * {SCALE}) + 3, 0), 255))", "return Z"]
        elif self.finished == "rounded":
            lines += [f"Z[{axes}] = bf16(max(f32(Y[{result}]), 0))", "return Z"]
        else:
            lines += ["return Y"]
        return parse("\n".join(lines))

    def inputs(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """All values that the integers have; floats of both signs."""
        shapes = [item.tensor.shape for item in self.program().inputs]
        made = []
        for kind, shape in zip(self.kinds, shapes, strict=True):
            if kind == "bf16":
                made.append((rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16))
            else:
                ends = np.iinfo(DTYPES[kind].numpy)
                made.append(rng.integers(ends.min, ends.max, shape, DTYPES[kind].numpy, endpoint=True))
        return made[0], made[1]

    def complaint(self, arrays: Sequence[Array], found: Array) -> str | None:
        """What is wrong with a result: integers are exact, floats within a few roundings of the sizes that were added up."""
        x, w = (numbers(array, kind) for array, kind in zip(arrays, self.kinds, strict=True))
        truth = self._sums(x, w, self.border)
        if self.kinds[0] == "bf16":
            near = 2.0**-16 * self._sums(np.abs(x), np.abs(w), abs(self.border))
        else:
            truth, near = truth.astype(np.int64).astype(np.int32), np.zeros(truth.shape)
        if self.finished == "quantised":
            value = np.rint(truth.astype(np.float32) * np.float32(SCALE)) + 3
            truth, near = np.clip(value, 0, 255), np.where(near * SCALE > 0, near * SCALE + 1, 0)
        elif self.finished == "rounded":
            truth = np.maximum(truth.astype(np.float32), 0)
            near = near + 2.0**-8 * truth
        result = numbers(found, "bf16" if self.finished == "rounded" else "f32")
        worse = np.abs(result - truth) > near
        if not worse.any():
            return None
        at = tuple(int(n) for n in np.argwhere(worse)[0])
        return f"{int(worse.sum())} wrong, the first at {at}: {result[at]}, not {truth[at]}"

    def _sums(self, x: Array, w: Array, border: int) -> Array:
        """The sums in float64, which holds those of integers exactly, in the order of the result."""
        if not self.last:
            x, w = x.transpose(1, 2, 0), w.transpose(2, 3, 1, 0)
        pad = self.padding
        x = np.pad(x, ((pad, pad), (pad, pad), (0, 0)), constant_values=border if pad else 0)
        (rows, columns), inner, outer = self.counts, w.shape[2], self.outputs // self.groups
        total = np.zeros((rows, columns, self.outputs))
        for r in range(self.kernel[0]):
            for s in range(self.kernel[1]):
                top, left = r * self.dilation, s * self.dilation
                piece = x[
                    top : top + self.stride * rows : self.stride, left : left + self.stride * columns : self.stride
                ]
                for o in range(self.outputs):
                    first = o // outer * inner
                    total[:, :, o] += piece[:rows, :columns, first : first + inner] @ w[r, s, :, o]
        return total if self.last else total.transpose(2, 0, 1)


def numbers(array: Array, kind: str) -> Array:
    """An array as it lies in memory, as float64."""
    if kind == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def drawn(seed: int) -> NarrowConvolution:
    """A convolution of sizes that nothing divides."""
    rng = np.random.default_rng(seed)
    kinds = KINDS[rng.integers(len(KINDS))]
    groups = int(rng.choice([1, 1, 1, 2, 0]))
    channels = int(rng.integers(8, 24)) * 2
    outputs = channels if groups == 0 else int(rng.integers(4, 22)) * 2
    kernel = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    padding, floats = int(rng.integers(0, 3)), kinds[0] == "bf16"
    finished = str(rng.choice(FINISHED))
    return NarrowConvolution(
        kinds, channels, outputs, (int(rng.integers(6, 13)), int(rng.integers(6, 13))), kernel, int(rng.integers(1, 3)),
        int(rng.integers(1, 3)), padding, groups or channels, bool(rng.integers(2)), 0 if floats else int(rng.integers(0, 5)),
        finished, bool(rng.integers(4)),
    )  # fmt: skip
