"""Loop tree -> loop IR.

Meaning of a loop tree
* Stages run in program order within the loop (or the root) where they stand; each root is one nest.
* A stage attached inside a loop covers a box of its axes: where it begins and how large it is follow from the points that the
  trip of that loop covers (schedules/regions.py). Boxes are clamped at the edge of the outer stage.
* A reduction accumulates in registers from the outermost reduction loop that has nothing but reduction loops and full pieces
  inside. Reduction loops outside of that one accumulate into the storage: the first trip stores, later ones add. If no such
  loop exists, the storage is set to the identity where the outermost reduction loop opens.
* Full pieces (register tiles) run all trips. At an edge they are masked: stores by `valid`, the value of a copy and of a
  vectorized reduction by `select`. A tile has at most two bodies, the full one and the masked one.
* Long sums of floats are added up in blocks (blocked_sums.py): accumulators begin anew, and are added to sums on the stack.
* A sum that stands in where a number is huge or NaN (tensor/exceptional.py) has terms only in tiles of which some point asks.
* A copy fills the overhang of its tiles with zeros, a piece of data that of its rows (storage.py); any stage gives zeros at
  points of its box outside of its tensor.
* A reduction at computed places (tensor/indices/scatter.py) sets what its loops cover to the identity where the outermost
  reduction loop opens, and runs no loops over places inside of that (scatter.py).
* A fold sets its state to the initial values where its ordered axis opens, and takes its steps in order (fold.py).
* An output that is attached is stored in its place in the whole tensor; its tiles are disjoint.
* What is computed ahead, once, when the kernel is made, is decided in schedules/prepared.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ...schedules.loops import LoopTree
from ...schedules.plan.stage import Plan, plan_of
from ...targets.target import Target
from ...tensor.exceptional import exceptional_condition
from ...tensor.expr import Expr, Read
from ..ir.index import floor_div, less, modulo, number, plus, times
from ..ir.loop_ir import (
    BLOCK_INDEX,
    THREAD_INDEX,
    Buffer,
    For,
    If,
    Let,
    LoopProgram,
    Nest,
    Scope,
    Statement,
    Store,
    statements,
)
from ..rows import PitchedRows
from .nest import NestLowering
from .refusals import check_lowers, check_rows
from .refusals_gpu import check_lowers_for_gpu, check_storage
from .storage import Storage, storages
from .view import Names

HELD_FROM = 1 << 16  # bytes of a constant from which on it is read where it is, if it hardly ever is


def planned(tree: LoopTree, target: Target) -> Plan:
    """The plan of a tree to which one config has been applied. ScheduleError: a schedule that has no code yet (refusals.py)."""
    if target.is_gpu:
        check_lowers_for_gpu(tree, target)
    else:
        check_lowers(tree, target)
    return plan_of(tree, target.is_gpu)


def lower(
    tree: LoopTree,
    target: Target,
    name: str = "kernel",
    plan: Plan | None = None,
    rows: Mapping[str, PitchedRows] | None = None,
) -> LoopProgram:
    """The loop IR of a tree to which one config has been applied.

    Args:
        plan: that of the tree, if it is known already.
        rows: of inputs and outputs whose elements do not lie side by side.

    ScheduleError: a schedule that has no code yet (refusals.py, fold.py), a vector whose length is no power of two, rows that
    begin inside of a dimension.
    """
    check_rows(tree.program, rows or {})
    plan = planned(tree, target) if plan is None else plan
    storage = storages(tree, plan, rows or {})
    if plan.gpu:
        check_storage(tree, storage, target)
    raw, held = _constants_read_at_run_time(tree, plan)
    for constant in held:
        storage[constant] = Storage(replace(storage[constant].buffer, scope=Scope.HELD))
    for constant in raw:
        old = storage[constant].buffer
        storage[constant] = Storage(Buffer(f"{constant}_raw", old.dtype, old.shape, Scope.PREPARED))
    lowering = NestLowering(tree, plan, storage, target)
    copied = _copy_in_threads if target.is_gpu else _plain_copy
    prepare = [copied(tree, storage, constant, lowering.names) for constant in raw]
    nests: list[Nest] = []
    for stage in tree.stages:
        if stage.at is None:
            nest = lowering.nest(stage)
            (prepare if plan.stages[stage.stage].prepared else nests).append(nest)
    buffers = [storage[t.name].buffer for t in tree.program.dynamic_inputs]
    buffers += [
        Buffer(t.name, t.dtype, t.shape, Scope.HELD if t.name in held else Scope.CONSTANT)
        for t in tree.program.constant_inputs
    ]
    outputs = [storage[name].buffer for name in tree.program.outputs]
    shared = (Scope.PREPARED, Scope.WORKSPACE, Scope.TABLE)
    used = [s.buffer for s in storage.values() if s.buffer.scope in shared]
    return LoopProgram(name, (*buffers, *outputs), tuple(used), tuple(prepare), tuple(nests))


def _constants_read_at_run_time(tree: LoopTree, plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Constants that some stage reads directly while the kernel runs: those of which the kernel keeps a copy, and those that
    it reads where they are, which are large, and read where numbers are exceptional alone. So these need no memory of
    their own: they are in their file until somebody asks."""
    sizes = {t.name: t.dtype.bytes * prod(t.shape) for t in tree.program.constant_inputs}
    often: dict[str, bool] = {}
    for stage in tree.stages:
        if not plan.stages[stage.stage].prepared:
            definition = tree.definition(stage.stage)
            rarely = exceptional_condition(definition) is not None and not plan.gpu
            for name in (read.tensor for read in definition.reads() if read.tensor in sizes):
                often[name] = often.get(name, False) or not rarely or sizes[name] < HELD_FROM
    return tuple(n for n, is_often in often.items() if is_often), tuple(n for n, o in often.items() if not o)


def _plain_copy(tree: LoopTree, storage: dict[str, Storage], constant: str, names: Names) -> Nest:
    """Keeps a constant as it is for the life of the kernel."""
    tensor = tree.program.tensors[constant]
    variables = [names.variable(f"{constant}.d{n}", extent) for n, extent in enumerate(tensor.shape)]
    index = tuple(variables)
    body: Statement = Store(storage[constant].buffer.name, index, Read(f"{constant}", index, tensor.dtype))
    for variable, extent in zip(reversed(variables), reversed(tensor.shape), strict=True):
        body = For(variable.name, number(extent), body)
    return Nest(f"keep_{constant}", body)


def _copy_in_threads(tree: LoopTree, storage: dict[str, Storage], constant: str, names: Names) -> Nest:
    """The same on a GPU: an element for each thread."""
    tensor = tree.program.tensors[constant]
    count, threads = prod(tensor.shape), 256
    blocks = -(-count // threads)
    item = names.variable(f"{constant}.item", count)
    index: list[Expr] = []
    rest: Expr = item
    for extent in reversed(tensor.shape):
        index.insert(0, modulo(rest, extent, names.bounds))
        rest = floor_div(rest, extent, names.bounds)
    place = tuple(index)
    body: Statement = Store(storage[constant].buffer.name, place, Read(constant, place, tensor.dtype))
    body = Let(item.name, plus(times(BLOCK_INDEX, threads), THREAD_INDEX), If(less(item, number(count)), body))
    return Nest(f"keep_{constant}", body, blocks, threads)


def allocated(program: LoopProgram) -> dict[str, Buffer]:
    """Every buffer that is no argument, by name: globals and what the nests allocate."""
    found = {buffer.name: buffer for buffer in program.globals}
    for nest in (*program.prepare, *program.nests):
        for statement in statements(nest.body):
            made = getattr(statement, "buffer", None)
            if isinstance(made, Buffer):
                found[made.name] = made
    return found
