"""Where the tensors of a stage live: scope, shape, and how often each exists.

Which scope it is may depend on numbers: a tile that is small enough stays in registers. So there is a list of homes, and the
first whose condition holds is the one.

registers   values that are never memory: of one thread, or a fragment, of which each thread of a team holds its part
stack       small tiles of one thread. scratch: larger ones
shared      what the threads of a block make for each other
workspace   what other nests read. prepared: the same, made once
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from ...tensor.program import Stage, Tensor
from ..extents import Condition, Extent, maximum, minimum, product, round_up
from ..loops import LoopTree, Scope, StageLoops
from ..regions import storage_box, storage_shape
from .conditions import at_most, every, opposite, possible, same
from .registers import fits_registers
from .threads import Dimension, fragment, is_fragment, runs_alone, shared_out

STACK_LIMIT = 16 * 1024  # bytes; larger tiles go to scratch memory, so that no thread's stack overflows
REGISTER_LIMIT = 4096  # bytes: beyond that no register file holds a tile
PAGE, LINE = 4096, 64  # bytes
CROWDED = 512  # bytes: rows at multiples of it begin at eight places of a page at most
OVERHANG_ROWS = (
    20  # points, more than a tile is high; no power of two, so that rows do not begin at the same place of pages
)
OVERHANG_COLUMNS = 32  # points along memory: whole lines


@dataclass(frozen=True, slots=True)
class Home:
    """One of the places where a tensor may live: `when` says for which candidates, if no home before it holds.

    fragment: the dimensions of what each thread holds, where that is not the whole.
    """

    scope: Scope
    when: Condition = True
    fragment: tuple[Dimension, ...] = ()


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """The storage of one tensor.

    shape: allocated points along its axes, or, for a copy, along the loops in their order; of a fragment the team's.
    held: points of each axis that it has room for, the overhang of register tiles included.
    slots: how many times it exists, for a copy that runs ahead.
    """

    tensor: Tensor
    homes: tuple[Home, ...]
    shape: tuple[Extent, ...]
    held: dict[str, Extent]
    slots: Extent = 1

    @property
    def home(self) -> Home:
        """The home, of a plan in which it is decided."""
        for home in self.homes:
            if home.when is True:
                return home
            assert home.when is False, "the home of a tensor differs from candidate to candidate: see variants.py"
        raise AssertionError("a tensor without a home")

    @property
    def scope(self) -> Scope:
        """The scope, of a plan in which it is decided."""
        return self.home.scope

    @property
    def bytes(self) -> Extent:
        """Bytes that are allocated for one thread, block or call, whoever it is made for."""
        parts = self.home.fragment
        points = product([extent for _, _, extent in parts]) if parts else product(self.shape)
        return points * self.tensor.dtype.bytes * self.slots

    def decided(self, number: int) -> StoragePlan:
        """The plan for those candidates whose home is the one of this number."""
        return replace(self, homes=(replace(self.homes[number], when=True),))


def storage_plans(tree: LoopTree, stage: StageLoops, prepared: bool, gpu: bool) -> tuple[StoragePlan, ...]:
    """The storage of each tensor of a stage."""
    definition = tree.definition(stage.stage)
    if all(tensor.name in tree.program.outputs for tensor in definition.tensors):
        held: dict[str, Extent] = {axis.name: axis.extent for axis in definition.axes}
    else:
        held = storage_box(tree, stage)
    return tuple(_storage(tree, stage, number, held, prepared, gpu) for number in range(len(definition.tensors)))


def _storage(
    tree: LoopTree, stage: StageLoops, number: int, held: dict[str, Extent], prepared: bool, gpu: bool
) -> StoragePlan:
    definition = tree.definition(stage.stage)
    tensor = definition.tensors[number]
    if tensor.name in tree.program.outputs:
        return StoragePlan(tensor, (Home(Scope.OUTPUT),), tensor.shape, held)
    shape = storage_shape(tree, stage, number, held)
    if stage.at is None:
        scope = Scope.PREPARED if prepared else Scope.WORKSPACE
        if scope is Scope.WORKSPACE and not stage.tiled:
            shape = _with_room(shape, definition, number)
        return StoragePlan(tensor, (Home(scope),), shape, held)
    if not gpu and not stage.tiled:
        shape = _spaced(shape, definition, number)
    size = product(shape)
    homes = _gpu_homes(tree, stage, size, tensor) if gpu else _cpu_homes(tree, stage, size, tensor)
    return StoragePlan(tensor, possible(homes), shape, held, slots(tree, stage) if gpu else 1)


def _cpu_homes(tree: LoopTree, stage: StageLoops, size: Extent, tensor: Tensor) -> tuple[Home, ...]:
    if stage.scope is not None:
        return (Home(stage.scope),)
    if stage.stored is not None:  # which of its rows is meant is known when the code runs
        return Home(Scope.STACK, at_most(size * tensor.dtype.bytes, STACK_LIMIT)), Home(Scope.SCRATCH)
    small = at_most(size * tensor.dtype.bytes, STACK_LIMIT)
    return (_tile(tree, stage, size, tensor), Home(Scope.STACK, small), Home(Scope.SCRATCH))


def _gpu_homes(tree: LoopTree, stage: StageLoops, size: Extent, tensor: Tensor) -> tuple[Home, ...]:
    if stage.scope is not None:
        return (Home(stage.scope),)
    one = Home(Scope.REGISTER, every((same(size, 1), opposite(shared_out(tree, stage)))))
    if runs_alone(tree, stage):
        return one, _tile(tree, stage, size, tensor), Home(Scope.STACK)
    return one, Home(Scope.REGISTER, is_fragment(tree, stage), fragment(tree, stage)), Home(Scope.SHARED)


def _tile(tree: LoopTree, stage: StageLoops, size: Extent, tensor: Tensor) -> Home:
    """Registers of one thread, for a tile that fits."""
    return Home(
        Scope.REGISTER, every((fits_registers(tree, stage), at_most(size * tensor.dtype.bytes, REGISTER_LIMIT)))
    )


def _with_room(shape: tuple[Extent, ...], definition: Stage, number: int) -> tuple[Extent, ...]:
    """The shape with what hangs over rounded up: nests that write and read the tensor by other tiles are then often the same
    for many tiles, and are compiled once."""
    found = []
    for dimension, (size, axis) in enumerate(zip(shape, definition.axes_of(number), strict=True)):
        step = OVERHANG_COLUMNS if dimension == len(shape) - 1 else OVERHANG_ROWS
        over = maximum(size - axis.extent, 0)
        found.append(minimum(size, axis.extent) + round_up(over, step))
    return tuple(found)


def _spaced(shape: tuple[Extent, ...], definition: Stage, number: int) -> tuple[Extent, ...]:
    """The shape with a line more in each row, where rows one after another would begin at few places of a page.

    A tile that goes over several of them, or over every second one, would find room for few in a first-level cache: a 3 x 3
    convolution in steps of two on 512 channels ran at 12 GFLOP/s, and does at 74 (EPYC of Zen 3, one thread).
    """
    axes, dtype = definition.axes_of(number), definition.tensors[number].dtype
    if definition.combiner is not None or len(shape) < 2 or gcd(axes[-1].extent * dtype.bytes, PAGE) < CROWDED:
        return shape
    # 1 for whole rows, 0 for parts of them, which lie close together
    whole = minimum(maximum(shape[-1] - axes[-1].extent + 1, 0), 1)
    return (*shape[:-1], shape[-1] + whole * (LINE // dtype.bytes))


def slots(tree: LoopTree, stage: StageLoops) -> Extent:
    """Says how many times the storage of an attached stage exists: more than once for a copy to shared memory that runs
    ahead."""
    if stage.at is None or stage.copies is None or stage.scope is not Scope.SHARED:
        return 1
    producer = tree.program.producers.get(stage.copies)
    if producer is not None and tree.by_stage[producer.name].at is not None:
        return 1
    return tree.by_stage[stage.at[0]].hints.pipeline(stage.at[1]).depth
