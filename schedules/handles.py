"""Loops and stages as a template sees them, and what the steps that it calls need of whoever writes them down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Union

from ..tensor.program import Axis, Stage
from .extents import Extent


@dataclass(frozen=True, slots=True)
class LoopHandle:
    """A loop as a template sees it."""

    name: str
    extent: Extent


@dataclass(frozen=True, slots=True)
class StageHandle:
    """A stage as a template sees it: its definition and its loops.

    At first these are its axes: spatial ones, then those of a reduction. The ordered axis of a fold stands right behind the
    axes that all its tensors keep.
    """

    name: str
    definition: Stage
    loops: tuple[LoopHandle, ...]

    @property
    def axes(self) -> tuple[LoopHandle, ...]:
        """The loops of the spatial axes of a stage that has not been split."""
        return self._of(self.definition.axes)

    @property
    def reduction(self) -> tuple[LoopHandle, ...]:
        """The loops of the reduction axes of a stage that has not been split."""
        return self._of(self.definition.reduction)

    def along(self, definition: Stage, axis: str) -> LoopHandle:
        """The unsplit loop of an axis of a definition: its own, or that of a stage whose axes this one's are by position."""
        names = [a.name for a in definition.all_axes]
        return self.loops[names.index(axis)]

    def _of(self, axes: tuple[Axis, ...]) -> tuple[LoopHandle, ...]:
        by_name = {loop.name: loop for loop in self.loops}
        return tuple(by_name[f"{self.name}.{axis.name}"] for axis in axes)


StepArgument = Union[str, Extent, StageHandle, LoopHandle]


class Tracer(ABC):
    """Writes steps down."""

    @abstractmethod
    def _do(self, op: str, *given: StepArgument) -> None:
        """Checks a step, takes it, and writes it down."""
