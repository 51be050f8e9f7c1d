"""window_rows: points of an image become rows of one product, whose data slide along the image as it lies in memory.

    y[p: P, q: Q, o] = sum[r, s, c](x[p + r, q + s, c] * w[r, s, c, o])        x of B columns, its border in it
    ->  x_rows[z, c]    = x[z // B, z % B, c]
        y_wide[z, o]    = sum[r, s, c](x_rows[z + B r + s, c] * w[r, s, c, o])        z from 0 to (P - 1) B + Q
        y[p, q, o]      = y_wide[B p + q, o]

A window moves by one row of the product for each column, and by B for each row of the image. So rows of a product need no copy
of their window, as im2col makes one, and they fill tiles however narrow the image is: of 7 x 7 points with a border 61 rows
are computed, in four tiles of 16. What stands at columns from Q on belongs to no point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..expr import Const, Expr, Read, rewrite, variables
from ..indices.affine import affine, simplify
from ..program import Axis, Program, Stage, Tensor
from ..stage_edits import find_axis, find_stage, free_axis_name, free_name, refuse, shape_of, with_stages


def window_rows(program: Program, stage: str, tensor: str, rows: str, columns: str) -> Program:
    """The points of two neighbouring axes of a reduction become those of one, along which its reads of `tensor` slide.

    Args:
        stage: a reduction.
        tensor: what it reads once, and nothing else moves with the two axes.
        rows, columns: spatial axes, the one behind the other. Each is in one index of the read, by itself and with a factor
            of 1, beside axes of the reduction.

    Stages made: TENSOR_rows, the read tensor with the two dimensions as one, and STAGE_wide, the reduction.
    Errors: ProgramError where the stage is none such.
    """
    old = find_stage(program, stage)
    found = _SlidingRead.of(program, old, tensor, (find_axis(old, rows), find_axis(old, columns)))
    flat = found.flat(program)
    wide = found.wide(program, flat)
    return with_stages(program, {old.name: (flat, wide, found.points(wide))})


@dataclass(frozen=True, slots=True)
class _SlidingRead:
    """A read that slides along two dimensions of a tensor."""

    stage: Stage
    read: Read
    rows: Axis
    columns: Axis
    place: int  # the dimension of the tensor along which rows slide; columns slide along the next one
    shape: tuple[int, ...]

    @staticmethod
    def of(program: Program, stage: Stage, tensor: str, axes: tuple[Axis, Axis]) -> _SlidingRead:
        """The window of a stage. Errors: ProgramError where it has none."""
        names = [axis.name for axis in axes]
        moving = [read for read in stage.reads() if set(names) & variables(read)]
        places = [axis.name for axis in stage.axes]
        plain = stage.combiner not in (None, "fold") and len(stage.bodies) == 1 and set(names) <= set(places)
        if not plain or places.index(names[1]) != places.index(names[0]) + 1:
            raise refuse(stage, f"{' and '.join(names)} are no neighbours among the results of a reduction")
        if len(moving) != 1 or moving[0].tensor != tensor or set(names) & _elsewhere(stage, moving[0]):
            raise refuse(stage, f"more moves with {' or '.join(names)} than one read of {tensor!r}")
        found = tuple(_slides(stage, moving[0], axis) for axis in axes)
        if found[1] != found[0] + 1:
            raise refuse(
                stage, f"{' and '.join(names)} move no two dimensions of {tensor!r} that are next to each other"
            )
        return _SlidingRead(stage, moving[0], *axes, found[0], program.tensors[tensor].shape)

    @property
    def width(self) -> int:
        """Columns of the tensor."""
        return self.shape[self.place + 1]

    def flat(self, program: Program) -> Stage:
        """The tensor, with its rows one behind the other."""
        sizes = (*self.shape[: self.place], self.shape[self.place] * self.width, *self.shape[self.place + 2 :])
        axes = tuple(Axis(f"d{n}", size) for n, size in enumerate(sizes))
        indices: list[Expr] = [axis.var for axis in axes]
        along = indices[self.place]
        indices[self.place : self.place + 1] = [along // self.width, along % self.width]
        body = replace(self.read, indices=tuple(indices))
        tensor = Tensor(free_name(program, f"{self.read.tensor}_rows"), self.read.dtype, shape_of(axes))
        return Stage((tensor,), axes, (body,), origin=self.stage.origin)

    def wide(self, program: Program, flat: Stage) -> Stage:
        """The reduction over all rows of the flat tensor that begin a window."""
        stage, place = self.stage, self.place
        row = Axis(free_axis_name(stage, "row"), (self.rows.extent - 1) * self.width + self.columns.extent)
        down, right = self.read.indices[place] - self.rows.var, self.read.indices[place + 1] - self.columns.var
        along = simplify(row.var + down * self.width + right)
        read = replace(
            self.read,
            tensor=flat.name,
            indices=(*self.read.indices[:place], along, *self.read.indices[place + 2 :]),
        )
        body = rewrite(stage.bodies[0], lambda node: read if node == self.read else None)
        at = stage.axes.index(self.rows)
        axes = (*stage.axes[:at], row, *stage.axes[at + 2 :])
        tensor = Tensor(free_name(program, f"{stage.name}_wide"), stage.tensors[0].dtype, shape_of(axes))
        return replace(stage, tensors=(tensor,), axes=axes, bodies=(body,))

    def points(self, wide: Stage) -> Stage:
        """The results at the points of the image."""
        at = self.stage.axes.index(self.rows)
        indices: list[Expr] = [axis.var for axis in wide.axes]
        indices[at] = self.rows.var * self.width + self.columns.var
        body = Read(wide.name, tuple(indices), wide.tensors[0].dtype)
        return replace(self.stage, bodies=(body,), reduction=(), combiner=None)


def _elsewhere(stage: Stage, read: Read) -> set[str]:
    """Returns the axes on which a stage depends other than by a read."""
    return set(variables(rewrite(stage.bodies[0], lambda node: Const(0, node.dtype) if node == read else None)))


def _slides(stage: Stage, read: Read, axis: Axis) -> int:
    """The one dimension along which a read slides with an axis: at the axis, and a place in its window."""
    found = [n for n, index in enumerate(read.indices) if axis.name in variables(index)]
    form = affine(read.indices[found[0]]) if len(found) == 1 else None
    others = {} if form is None else {name: c for name, c in form.coefficients.items() if name != axis.name}
    in_window = others.keys() <= {a.name for a in stage.reduction}
    if form is None or not form.is_linear or form.coefficient(axis.var) != 1 or not in_window:
        raise refuse(stage, f"{read.tensor!r} does not slide with {axis.name}, one place for each point")
    return found[0]
