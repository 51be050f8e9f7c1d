"""The rules for processors, all of them, in their order.

A new rule is a file of its own, and one line in each of the two lists below in which it plays a part (CONTRIBUTING.md).
"""

from __future__ import annotations

from ..few import FEW
from ..inline import INLINE
from ..rule import Rules
from ..trim import CUT, TRIM
from .dots import DOT_WORDS, DOTS
from .exceptional import EXCEPTIONAL
from .fast_windows.choice import CHOICE
from .fast_windows.filters import FILTERS
from .fast_windows.transform import TRANSFORM, TRANSFORMS_APART
from .fold import FOLD
from .groups import GROUPS
from .matrix.rows import MATRIX_ROWS
from .matrix.rule import CHOICES_APART, PACKED, PRODUCTS, PRODUCTS_APART
from .narrow import NARROW
from .online import ONLINE
from .overlap import OVERLAP
from .pairs import PAIRS, PAIRS_APART
from .prepared import PREPARED
from .rounded import ROUNDED
from .rows import ROWS
from .scatter import SCATTER, SCATTERS_APART
from .siblings import SIBLINGS
from .slide import SLIDE, SLIDE_DATA
from .split import SPLIT
from .stream import STREAM
from .tile import TILE
from .widen import WIDE_APART, WIDEN
from .window import WINDOW, WINDOW_DATA

CPU = Rules(
    preparing=(
        # Rewrites of the program. Each one sees what those before it have made.
        TRIM,  # windows that reach beyond an image at all points: without what they find there
        SIBLINGS,  # reductions that read the same data: perhaps one. First, because what they become is like any other stage
        SPLIT,  # a reduction with a small result: in parts. Early, because its parts are like any other program
        FOLD,  # a search along memory: in lanes
        TRANSFORM,  # a 3x3 window with reuse: perhaps fewer products. Before other rules write the borders of windows
        ROUNDED,  # operands that products round at each use: narrow ones, rounded once
        PRODUCTS,  # sums of products: words for a matrix unit, where the target has one, which then has them for itself
        GROUPS,  # sums of products with weights in few bits: their scales multiply sums of groups
        DOTS,  # sums of products of narrow elements: words for instructions that multiply these, where the target has some
        WIDEN,  # narrow operands of products that are left: f32, once each, where each is in many of them
        WINDOW,  # windows with reuse that read under guards: a border is written instead
        SLIDE,  # windows without reuse that do: the same, perhaps
        ONLINE,  # a softmax along a long axis: perhaps block by block
        PAIRS,  # maxima of many elements: perhaps of maxima of two, which several points share
        # The last rewrite is done. Before anything is inlined, rules name the stages that have to stay.
        CUT,  # what is left of constants
        EXCEPTIONAL,  # what decides whether stand-in sums are asked for
        TRANSFORMS_APART,  # transforms, and the data that they read
        PRODUCTS_APART,  # products of a matrix unit, and their packed operands
        DOT_WORDS,  # words of operands
        WIDE_APART,  # operands as f32
        SCATTERS_APART,  # reductions at computed places, where these are rows
        WINDOW_DATA,  # what makes the data of a window: it runs where a piece of them is needed
        SLIDE_DATA,  # the same
        PAIRS_APART,  # maxima of two that are read in many places
        MATRIX_ROWS,  # products of products of a matrix unit, where they run by blocks of rows
        ROWS,  # products of products: perhaps by blocks of rows, unless a softmax runs by blocks
        OVERLAP,  # what is read a few points apart, stage after stage: perhaps by tiles
        INLINE,  # what is cheap, and what only moves data, is written where it is read
        # Nothing is inlined after this. The rest follows from the stages that are left.
        CHOICES_APART,  # stages that choose between results and stand-in sums
        PREPARED,  # what is constant
        FEW,  # several products: fewer structures of each
    ),
    roots=(
        # Stages that rules have chosen while they prepared.
        ONLINE,  # a softmax by blocks: products right before each step of a fold
        ROWS,  # a product of a product, with something of each row between: block by block of rows
        PREPARED,  # what is computed once, when the kernel is made: short code
        EXCEPTIONAL,  # what decides whether stand-in sums are asked for: few short nests
        # Stages of a form that one rule alone knows.
        FOLD,  # steps in their order, independent points in parallel and in vectors
        SCATTER,  # reductions at computed places: histograms, scatter-add
        MATRIX_ROWS,  # products of products of a matrix unit, block by block of rows
        PRODUCTS,  # products of a matrix unit, and what finishes them
        PACKED,  # their operands
        CHOICE,  # a choice between the results of a transform and stand-in sums, with both
        FILTERS,  # products with filters that are transformed in each call, where it was chosen
        TRANSFORM,  # sums with coefficients of the text, written out
        # From the most particular to the most general.
        OVERLAP,  # stages that read one another a few points apart, where it was chosen
        GROUPS,  # sums over groups of sums over a group, where it was chosen
        WINDOW,  # a reduction with reuse whose data slide: convolutions
        NARROW,  # a product with few columns: its depth in lanes
        SLIDE,  # a small window without reuse: depthwise, pooling, stencils
        TILE,  # a reduction with reuse, and what finishes it: multi-level tiling, register tiles, packed operands
        STREAM,  # anything else: contiguous axis in vectors, rows in parallel, and within them what belongs to one row
    ),
)
