"""Windows that slide over images: where they start, what lies outside, how many there are. Of any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...common.errors import ArgumentError
from ..build import reduce_axis
from ..expr import Expr
from ..functions import ReduceAxis
from ..indices.affine import simplify
from .arguments import Offsets, Sizes, choose, per_dimension

POSITIONS = ("p", "q", "u")  # names of the axes of results
OFFSETS = ("r", "s", "t")  # names of the axes of windows
LAYOUTS = {1: ("ncw", "nwc"), 2: ("nchw", "nhwc"), 3: ("ncdhw", "ndhwc")}


@dataclass(frozen=True, slots=True)
class Window:
    """A window over `sizes`: of `kernel` elements that lie `dilation` apart, moved by `stride`; `padding` around the image,
    or in front of it if there is another one `behind`, which may be negative: the last elements are not reached then."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    behind: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls, operator: str, sizes: Sequence[int], kernel: Sizes, stride: Sizes = 1, padding: Offsets = 0,
        dilation: Sizes = 1,
    ) -> Window:  # fmt: skip
        """Makes a window of the arguments of an operator. Errors: ArgumentError for a window larger than the padded image."""
        rank = len(sizes)
        window = cls(
            tuple(sizes), per_dimension(operator, "kernel", kernel, rank),
            per_dimension(operator, "stride", stride, rank), per_dimension(operator, "padding", padding, rank),
            per_dimension(operator, "dilation", dilation, rank),
        )  # fmt: skip
        if min(window.counts) < 1:
            found = f"{_times(window.kernel)} on {_times(sizes)}"
            raise ArgumentError(f"the window of {operator} is larger than the image", found=found)
        return window

    @property
    def counts(self) -> tuple[int, ...]:
        """Says how many places the window has in each dimension."""
        return tuple(
            (size + padding + behind - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, padding, dilation, behind in zip(
                self.sizes,
                self.kernel,
                self.stride,
                self.padding,
                self.dilation,
                self.behind or self.padding,
                strict=True,
            )
        )

    def axes(self) -> list[ReduceAxis]:
        """New axes over the elements of the window."""
        return [reduce_axis(k, name) for k, name in zip(self.kernel, OFFSETS, strict=False)]

    def places(self, positions: Sequence[Expr], offsets: Sequence[Expr]) -> list[Expr]:
        """The indices of an element of the window in the image; outside of it in the padding."""
        return [
            simplify(position * stride + offset * dilation - padding)
            for position, offset, stride, dilation, padding in zip(
                positions, offsets, self.stride, self.dilation, self.padding, strict=True
            )
        ]

    def inside(self, places: Sequence[Expr]) -> list[Expr]:
        """Conditions under which places lie in the image: only those that can fail."""
        found: list[Expr] = []
        for d, place in enumerate(places):
            last = (self.counts[d] - 1) * self.stride[d] + (self.kernel[d] - 1) * self.dilation[d] - self.padding[d]
            found += [place >= 0] * (self.padding[d] > 0) + [place < self.sizes[d]] * (last >= self.sizes[d])
        return found


def channels_first(operator: str, layout: str, rank: int) -> bool:
    """Says whether channels stand before the `rank` dimensions of the image. Errors: ArgumentError for an unknown layout."""
    return choose(operator, "layout", layout, LAYOUTS[rank]) == LAYOUTS[rank][0]


def all_of(conditions: Sequence[Expr]) -> Expr:
    """The conjunction of at least one condition."""
    total = conditions[0]
    for condition in conditions[1:]:
        total = total & condition
    return total


def _times(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))
