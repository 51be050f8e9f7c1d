"""What a schedule says of how a stage uses memory: frozen data on its loops, and the one place that says what it means.

    Streaming(on)                            stores go past the caches
    Align(on)                                vectors along a row begin where lines of memory do
    PrefetchAhead(tensor, loop, distance)    a loop asks for what it will use of a tensor `distance` trips later
    PrefetchNext(tensor, loop, on)           what the next trip of a loop around will read is asked for, a little at a time
    Pipeline(loop, stages, staged)           copies inside of a loop run `stages` - 1 trips ahead, through registers if `staged`
    PadLayout(elements)                      each row of a copy has room for so many more
    Swizzle(bits)                            chunks of the lines of a copy are exchanged

The names in a hint say what it is about; its numbers are extents in any of their lives. Who reads hints asks `Hints`, so that
all readers mean the same:

* The last word holds. A hint about what an earlier one of its kind is about (the same tensor, the same loop) takes its place.
* `asked` is 1 where a hint asks for anything and 0 where the code is as if it were not there: a distance, a padding, or a
  swizzle of 0, a pipeline of fewer than two stages. `on` and `staged` are yes or no, and every number but 0 is a yes.
* No number of a hint is less than 0. The steps refuse what is (steps/hints.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import ClassVar, TypeVar

from .extents import Extent, maximum, minimum

SWIZZLED = 3  # bits at most: a line of 128 bytes has 8 chunks

H = TypeVar("H", bound="Hint")
Phrase = tuple[str | Extent, ...]


@dataclass(frozen=True, slots=True)
class Hint:
    """The fields of a hint are names (str) first, then numbers. `WORD` stands for it in outlines."""

    WORD: ClassVar[str]
    FOR_GPU: ClassVar[bool] = False  # no processor has code for it

    @property
    def about(self) -> tuple[str, ...]:
        """The names in it: the tensor and the loop that it is about."""
        return tuple(value for value in self._values if isinstance(value, str))

    @property
    def numbers(self) -> tuple[Extent, ...]:
        """The numbers in it."""
        return tuple(value for value in self._values if not isinstance(value, str))

    @property
    def asked(self) -> Extent:
        """1 where it asks for anything, 0 where the code is as if it were not there."""
        return minimum(self.numbers[0], 1)

    @property
    def phrases(self) -> tuple[Phrase, ...]:
        """Returns what an outline shows of it."""
        return ((self.WORD, *self._values),)

    @property
    def _values(self) -> Phrase:
        return tuple(getattr(self, field.name) for field in fields(self))

    def changed(self: H, change: Callable[[Extent], Extent]) -> H:
        """The hint with other numbers."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{n: v if isinstance(v, str) else change(v) for n, v in values.items()})


@dataclass(frozen=True, slots=True)
class Streaming(Hint):
    """Stores of a stage go past the caches."""

    WORD: ClassVar[str] = "streaming"
    on: Extent = 1


@dataclass(frozen=True, slots=True)
class Align(Hint):
    """Vectors along the rows of a stage begin where lines of memory do."""

    WORD: ClassVar[str] = "aligned"
    on: Extent = 1


@dataclass(frozen=True, slots=True)
class PrefetchAhead(Hint):
    """Each trip of a loop asks for what the stage uses of a tensor so many trips later."""

    WORD: ClassVar[str] = "prefetch"
    tensor: str
    loop: str
    distance: Extent


FITTING = 16384  # bytes for the next trip that have a place in the first cache, beside those of this trip


@dataclass(frozen=True, slots=True)
class PrefetchNext(Hint):
    """Asks for what the stage reads of a tensor in the next trip of a loop around it, spread over the work of this trip."""

    WORD: ClassVar[str] = "bring"
    tensor: str
    loop: str
    on: Extent = 1


@dataclass(frozen=True, slots=True)
class Pipeline(Hint):
    """The copies to shared memory inside of a loop run ahead of their use."""

    WORD: ClassVar[str] = "pipeline"
    FOR_GPU: ClassVar[bool] = True
    loop: str
    stages: Extent
    staged: Extent = 0

    @property
    def asked(self) -> Extent:
        """1 where copies run ahead."""
        return minimum(self.depth - 1, 1)

    @property
    def depth(self) -> Extent:
        """Counts the trips of the loop for which its copies exist, at least 1."""
        return maximum(self.stages, 1)

    @property
    def in_registers(self) -> Extent:
        """1 where copies run ahead and threads hold in registers what they copy, whatever the target can do."""
        return minimum(self.staged, 1) * self.asked

    @property
    def phrases(self) -> tuple[Phrase, ...]:
        """Returns what an outline shows of it: registers only where they are asked for."""
        phrase: Phrase = (self.WORD, self.loop, self.stages)
        if isinstance(self.staged, int) and self.staged == 0:
            return (phrase,)
        return (phrase, ("staged", self.loop, self.staged))


@dataclass(frozen=True, slots=True)
class PadLayout(Hint):
    """Each row of a copy, its innermost loop, has room for so many more elements."""

    WORD: ClassVar[str] = "pad_layout"
    elements: Extent


@dataclass(frozen=True, slots=True)
class Swizzle(Hint):
    """The 16-byte chunks of each line of 128 bytes are exchanged by the xor with so many low bits of the line's number."""

    WORD: ClassVar[str] = "swizzle"
    FOR_GPU: ClassVar[bool] = True
    bits: Extent


@dataclass(frozen=True, slots=True)
class Hints:
    """All that is said of a stage, each thing once."""

    said: tuple[Hint, ...] = ()

    def saying(self, hint: Hint) -> Hints:
        """Returns the hints with one more, which takes the place of an earlier one about the same."""
        return Hints((*(h for h in self.said if (type(h), h.about) != (type(hint), hint.about)), hint))

    def changed(self, change: Callable[[Extent], Extent]) -> Hints:
        """Returns the hints with other numbers."""
        return Hints(tuple(hint.changed(change) for hint in self.said)) if self.said else self

    def of(self, kind: type[H]) -> tuple[H, ...]:
        """Returns the hints of a kind, also where their numbers ask for nothing."""
        return tuple(hint for hint in self.said if isinstance(hint, kind))

    @property
    def streams(self) -> Extent:
        """1 where the stores of the stage go past the caches, else 0."""
        return self.of(Streaming)[0].asked if self.of(Streaming) else 0

    @property
    def aligns(self) -> Extent:
        """1 where rows begin with what is left of a line, else 0. Stores past the caches need it."""
        aligned = self.of(Align)
        return maximum(self.streams, aligned[0].asked) if aligned else self.streams

    @property
    def padding(self) -> Extent:
        """Elements that each row of a copy has room for beside its own."""
        return self.of(PadLayout)[0].elements if self.of(PadLayout) else 0

    @property
    def swizzle(self) -> Extent:
        """Bits of the line's number by which chunks are exchanged; 0: they lie as they are."""
        return self.of(Swizzle)[0].bits if self.of(Swizzle) else 0

    def pipeline(self, loop: str) -> Pipeline:
        """Says how the copies inside of a loop run ahead: not at all where nothing is said."""
        return next((hint for hint in self.of(Pipeline) if hint.loop == loop), Pipeline(loop, 1))


NOTHING = Hints()
