"""One program becomes kernels: programs again, which are tuned and compiled apart, and equal ones once.

    layouts   the order of dimensions of what lies between kernels                         (layouts.py)
    inline    what is cheap, and what only moves data                                      (inline.py)
    groups    what is computed tile by tile; a reduction with what finishes it (epilogues.py); what is computed row by row; the
              rest by itself; groups that sum up the same data are one                      (siblings.py)
    aliases   what is the same memory under another shape is no kernel at all               (places.py)
    joins     what is put side by side is written there                                     (joins.py)
    kernels   each group with its inputs and outputs                                        (kernels.py)

Groups are found from the outputs back. A group takes in a producer only if all readers of that are in the group: so nothing
is computed twice, and no two groups wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import prod

from ...codegen.rows import ArgumentRows
from ...schedules.access import depends, is_anchor, moves_data_only
from ...schedules.prepared import constant_tensors
from ...schedules.rules.cpu.overlap import groups_of
from ...schedules.rules.cpu.rows import row_blocks_of
from ...schedules.rules.cpu.tile import parts_of
from ...schedules.rules.row_groups import row_group
from ...schedules.rules.tile_groups import worth_keeping
from ...tensor.expr import Read
from ...tensor.program import Program, Stage
from ...tensor.rewrites.normalise import normalise
from ..place import Inside, argument_rows, place_of
from ..rewrites.table import rewritten
from .epilogues import Epilogue, epilogues
from .inline import inlined, is_window
from .joins import Joins, joins_of
from .kernels import kernel_of
from .layouts import laid_out
from .places import copied
from .siblings import with_siblings


@dataclass(frozen=True)
class Partition:
    """The kernels of a program, each after those whose results it reads. Tensors have the program's names in all of them, and
    the shapes that `program` has for them: it is the program that was cut, in the orders of dimensions chosen for it.

    `aliases`: of a tensor that no kernel writes, the one whose memory it shares, which is itself no alias.
    `inside`: of a tensor that lies in another one, its place there.
    """

    program: Program
    kernels: tuple[Program, ...]
    aliases: Mapping[str, str]
    inside: Inside

    def rows(self, kernel: Program) -> ArgumentRows:
        """The rows in which the arguments of a kernel lie, as `build` takes them."""
        return argument_rows(kernel, self.aliases, self.inside)


def partition(program: Program) -> Partition:
    """Cuts a program into kernels."""
    needed = laid_out(rewritten(program))
    refused = frozenset[str]()
    while True:
        found = _cut(needed, refused)
        broken = frozenset().union(*(_broken(found, kernel) for kernel in found.kernels))
        if not broken:
            return found
        refused |= broken


def _broken(found: Partition, kernel: Program) -> frozenset[str]:
    """Returns the joins that cannot lie as they do, with all that lies in the same one: this kernel would see a dimension in
    the middle of which a row begins."""
    lies = found.rows(kernel)
    if not lies:
        return frozenset()
    form = normalise(kernel)
    names = [*(tensor.name for tensor in form.dynamic_inputs), *form.outputs]
    broken = [n for n, rows in zip(names, lies, strict=True) if rows and not rows.fit(form.tensors[n].shape)]
    wholes = {place_of(name, found.aliases, found.inside).tensor for name in broken}
    return frozenset(wholes | {name for name, place in found.inside.items() if place.tensor in wholes})


def _cut(needed: Program, refused: frozenset[str]) -> Partition:
    """The kernels of a program whose tensors have their orders. `refused`: joins that are computed as any other stage."""
    finished = epilogues(needed)
    given = constant_tensors(needed)
    prepared = frozenset(stage.name for stage in needed.stages if stage.name in given)
    stored = frozenset(finished) | {stage.name for stage in needed.stages if stage.combiner is not None}
    kept = _joins(needed, {}, stored - prepared, refused).laid
    tiled = frozenset[str]().union(*(worth_keeping(needed, group) for group in groups_of(needed, prepared)))
    ready = frozenset(name for name in prepared if any(c.name not in prepared for c in needed.consumers[name]))
    small = inlined(needed, frozenset(finished) | ready | kept | tiled, stored - prepared)
    aliases = _aliases(small, prepared)
    joins = _joins(small, aliases, (stored | _left(small, aliases)) - prepared, refused)
    groups = with_siblings(small, _groups(small, finished, prepared | joins.laid, frozenset(aliases)))
    kernels = tuple(kernel_of(small, members, prepared) for members in groups)
    computed = frozenset(name for members in groups for name in members)
    shared = {name: source for name, source in aliases.items() if name not in computed}
    return Partition(needed, kernels, shared, joins.inside)


def _aliases(program: Program, prepared: frozenset[str]) -> dict[str, str]:
    """Stages that only give memory another shape, inside of the program."""
    found: dict[str, str] = {}
    for stage in program.stages:
        source = None if stage.name in program.outputs or stage.name in prepared else copied(program, stage)
        if source is not None and all(table.tensor.name != source for table in program.tables):
            found[stage.name] = found.get(source, source)
    return found


def _left(program: Program, aliases: Mapping[str, str]) -> frozenset[str]:
    """Returns the pointwise stages that no reader has taken in, and that compute something: they are stored for a join, as this
    is in no group. The hidden states of an LSTM are such stages, which the next step reads too."""
    pointwise = (stage for stage in program.stages if stage.combiner is None and stage.name not in aliases)
    return frozenset(stage.name for stage in pointwise if not moves_data_only(stage))


def _joins(program: Program, aliases: Mapping[str, str], stored: AbstractSet[str], refused: frozenset[str]) -> Joins:
    """Finds what is put side by side without a kernel. `stored`: stages that no other one takes in."""

    def is_stored(name: str) -> bool:
        producer = program.producers.get(name)
        return producer is not None and producer.name in stored and name not in program.outputs

    return joins_of(program, lambda name: aliases.get(name, name), is_stored, refused)


def _groups(
    program: Program, finished: Mapping[str, Epilogue], without: frozenset[str], aliases: frozenset[str]
) -> list[list[str]]:
    """The stages of each kernel, in the order in which kernels run.

    Of `aliases` those are computed that stand between a reduction and what finishes it: its result is never in memory.
    """
    taken = set(without | aliases)
    ends = _ends(program, finished)
    tiles = {group.root: group for group in groups_of(program, taken)}
    groups: list[list[str]] = []
    for stage in reversed(program.stages):
        if stage.name not in taken:
            tile = tiles.get(stage.name)
            if tile is not None and taken.isdisjoint(tile.members):
                members = [stage.name, *tile.members]
            else:
                members = _group(program, stage, finished.get(stage.name), taken, aliases, ends)
            taken.update(members)
            groups.append(members)
    return groups[::-1]


def _ends(program: Program, finished: Mapping[str, Epilogue]) -> frozenset[str]:
    """Returns what no row takes in: the end of what needs a register tile of its own, a product with reuse or a sliding
    window."""
    windows = frozenset(stage.name for stage in program.stages if is_window(stage))
    heavy = (
        name for name, one in finished.items() if one.reduction in windows or is_anchor(program.stage(one.reduction))
    )
    return windows | frozenset(heavy)


def _group(
    program: Program,
    root: Stage,
    epilogue: Epilogue | None,
    taken: AbstractSet[str],
    aliases: frozenset[str],
    ends: frozenset[str],
) -> list[str]:
    """A root with the producers that it takes in. `aliases`: see `_groups`; `ends`: see `_ends`."""
    if root.fold is not None:
        return [root.name]
    if epilogue is not None and all(n not in taken or n in aliases for n in (epilogue.reduction, *epilogue.members)):
        here = [name for name in epilogue.members if name in program.producers]
        members = [root.name, epilogue.reduction, *(name for name in here if name != root.name)]
        return [*members, *_products_before(program, program.stage(epilogue.reduction), taken)]
    if is_anchor(root):
        return [root.name, *_products_before(program, root, taken)]
    return [root.name, *row_group(program, root, taken | ends)[0]]


def _products_before(program: Program, anchor: Stage, taken: AbstractSet[str]) -> list[str]:
    """The product, and what is done to each of its rows, that runs block by block with a product that reads it: attention."""
    if not is_anchor(anchor):
        return []
    found, _ = row_group(program, anchor, taken, product=True)
    return found if found and _stays_near(normalise(kernel_of(program, [anchor.name, *found], frozenset()))) else []


def _stays_near(kernel: Program) -> bool:
    """Says whether one product comes before the last, and what is between them is no smaller than what each block of rows reads
    again for them. So attention is done at once, and layers with large weights are not."""
    together = row_blocks_of(kernel)
    products = [stage for stage in kernel.stages if is_anchor(stage)]
    if together is None or len(products) != 2:
        return False
    between = prod(a.extent for a in products[0].axes)
    return between >= sum(_read_again(kernel, product) for product in products)


def _read_again(kernel: Program, product: Stage) -> int:
    """Elements of the operands from outside that do not move with the rows of a product, of each what the product reads."""
    parts = parts_of(kernel, product, product)
    rows = parts.rows if parts is not None else None
    outside = [read for read in product.reads() if read.tensor not in kernel.producers]
    return sum(_elements(kernel, product, read) for read in outside if rows is None or not depends(read, rows))


def _elements(kernel: Program, stage: Stage, read: Read) -> int:
    """Elements that a stage reads of a tensor: perhaps a part, as of one that holds queries, keys and values."""
    moving = prod(axis.extent for axis in stage.all_axes if depends(read, axis.name))
    return min(moving, prod(kernel.tensors[read.tensor].shape))
