"""The rules for GPUs, all of them, in their order. Each root becomes a launch.

A new rule is a file of its own, and one line in each of the two lists below in which it plays a part (CONTRIBUTING.md).
"""

from __future__ import annotations

from ..few import FEW
from ..inline import INLINE
from ..rule import Rules
from ..trim import CUT, TRIM
from .columns import COLUMNS, MOVED
from .fold import FOLD
from .split import SPLIT
from .stream import STREAM
from .tile import TILE

GPU = Rules(
    preparing=(
        # Rewrites of the program. Each one sees what those before it have made.
        TRIM,  # windows that reach beyond an image at all points: without what they find there
        COLUMNS,  # a sliding window: a matrix of columns, so that its reduction becomes a matrix product
        SPLIT,  # a reduction with too few results to fill the machine: in parts. Products with few columns are such, too
        # The last rewrite is done.
        CUT,  # what is left of constants
        MOVED,  # what only moves data for a product is written into the copies that its blocks make
        INLINE,  # what is cheap, and what only moves data, is written where it is read
        FEW,  # several products: fewer structures of each
    ),
    roots=(
        FOLD,  # steps in their order, one thread each; independent points in parallel
        TILE,  # a reduction with reuse along two axes, and what finishes it: tiles of blocks, of warps, of threads
        STREAM,  # anything else: lanes along memory, rows in warps and blocks, transposes through shared memory
    ),
)
