"""The sketches that the GPU rules derive: how neighbouring threads lie, what is shared, what the limits rule out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.modelling.programs import drawn
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import LoopKind, LoopTree, Scope
from tilesmith.schedules.outline import outline
from tilesmith.schedules.sketch import Sketch, parse_sketch
from tilesmith.schedules.space import config
from tilesmith.schedules.task import normalised
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical

TARGET = parse_target("cuda:sm_90a")
PROGRAMS: dict[str, Callable[[], Program]] = {
    "elementwise": lambda: ops.add(1 << 20),
    "broadcast": lambda: ops.bias_add(1000, 2000),
    "row sum": lambda: ops.row_sum(4096, 4096),
    "short rows": lambda: ops.row_sum(1 << 20, 8),
    "column sum": lambda: ops.column_sum(4096, 4096),
    "total": lambda: ops.total(1 << 24),
    "softmax": lambda: ops.softmax(1000, 4096),
    "layer norm": lambda: ops.layer_norm(1000, 4096),
    "transpose": lambda: ops.transpose(4096, 4096),
    "matmul": lambda: ops.matmul(1024, 1024, 1024),
    "odd matmul": lambda: ops.matmul(97, 61, 1009),
    "epilogue": lambda: ops.matmul_bias_relu(512, 512, 512),
    "batch": lambda: ops.batch_matmul(8, 64, 64, 64),
    "convolution": lambda: ops.conv2d(4, 64, 56, 56, 64, padding=1),
    "attention": lambda: ops.attention(2, 64, 64, 32),
}


def body_of(name: str) -> Program:
    return normalised(canonical(PROGRAMS[name]()))


def default_tree(body: Program, sketch: Sketch) -> LoopTree:
    config_space = sketch.config_space(body, TARGET)
    return sketch.apply(body, TARGET, config(config_space, config_space.default))


def first(name: str) -> str:
    """The outline of the first sketch of a program, its numbers at their defaults."""
    body = body_of(name)
    return outline(default_tree(body, derive(body, TARGET)[1]))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_launch_has_threads_and_every_sketch_valid_configs(name: str) -> None:
    body = body_of(name)
    for sketch in derive(body, TARGET)[1:]:
        assert parse_sketch(sketch.text) == sketch
        tree, _, good = drawn(sketch, body, 1 << 15, seed=1, target=TARGET)
        assert good.any(), sketch.title
        for stage in tree.stages:
            inside = [s for s in tree.stages if stage.stage in (s.stage, *(o.stage for o, _ in tree.chain(s.stage)))]
            if stage.at is None:
                kinds = {loop.kind for s in inside for loop in s.loops}
                assert LoopKind.THREAD in kinds, (sketch.title, stage.stage)
                assert not kinds & {LoopKind.PARALLEL}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_valid_blocks_can_run(name: str) -> None:
    """Threads of a block, and bytes of its copies, within the limits: counted on the tree, apart from the conditions."""
    body = body_of(name)
    for sketch in derive(body, TARGET)[1:]:
        tree, _, good = drawn(sketch, body, 4096, seed=2, target=TARGET)
        for stage in tree.stages:
            threads = np.ones(1, dtype=np.int64)
            for loop in stage.loops:
                if loop.kind is LoopKind.THREAD and stage.scope is not Scope.SHARED:
                    threads = threads * loop.extent
            warps = [loop.extent for loop in stage.loops if loop.kind is LoopKind.WARP]
            assert (np.broadcast_to(threads, good.shape)[good] <= 1024).all()
            if warps:
                assert (np.broadcast_to(threads, good.shape)[good] <= 32).all()
                assert (np.broadcast_to(warps[0], good.shape)[good] <= 32).all()


def test_neighbouring_threads_of_a_pointwise_stage_touch_neighbouring_vectors() -> None:
    assert first("elementwise") == (
        "t0: pointwise\n"
        "  block.0 t0.a0.p0: 512\n"
        "    unroll t0.a0.p1: 2\n"
        "      thread.0 t0.a0.p2: 256\n"
        "        vector t0.a0.p3: 4\n"
        "          t0 = f(x0, x1)"
    )


def test_rows_are_shared_by_the_threads_of_a_warp_or_of_a_block() -> None:
    body = body_of("row sum")
    warp, block = (default_tree(body, sketch).stages[0] for sketch in derive(body, TARGET)[1:])
    assert [loop.kind for loop in warp.loops[:2]] == [LoopKind.BLOCK, LoopKind.WARP]
    assert [loop.kind for loop in block.loops[:2]] == [LoopKind.BLOCK, LoopKind.SERIAL]
    for stage in (warp, block):
        assert [loop.kind for loop in stage.loops[-2:]] == [LoopKind.THREAD, LoopKind.VECTOR]
        assert stage.loops[-1].axis == "a1"


def test_columns_are_split_over_blocks() -> None:
    titles = [sketch.title for sketch in derive(body_of("column sum"), TARGET)[1:]]
    assert titles == ["auto(split t0=1)", "auto(split t0=8)", "auto(split t0=64)"]


def test_a_softmax_is_one_launch_whose_stages_share_their_threads() -> None:
    body = body_of("softmax")
    for sketch in derive(body, TARGET)[1:]:
        tree = default_tree(body, sketch)
        assert sum(stage.at is None for stage in tree.stages) == 1
        threads = [(loop.extent, loop.stride) for s in tree.stages for loop in s.loops if loop.kind is LoopKind.THREAD]
        assert len(threads) == len(tree.stages)
        assert len(set(threads)) == 1


def test_a_product_shares_both_operands_and_keeps_its_sums_in_registers() -> None:
    body = body_of("epilogue")
    for sketch in derive(body, TARGET)[1:]:
        tree = default_tree(body, sketch)
        copies = [stage for stage in tree.stages if stage.copies is not None]
        assert [copy.scope for copy in copies] == [Scope.SHARED, Scope.SHARED]
        root = tree.by_stage["t1"]
        anchor = tree.by_stage["t0"]
        assert anchor.at is not None
        assert root.loop(anchor.at[1]).kind is LoopKind.BLOCK

        def threads(stage: str, tree: LoopTree = tree) -> list[tuple[str, object, object]]:
            loops = tree.by_stage[stage].loops
            return [(x.axis, x.extent, x.stride) for x in loops if x.kind is LoopKind.THREAD]

        assert threads("t0") == threads("t1")


def test_windows_become_columns_inside_of_the_copies() -> None:
    body = body_of("convolution")
    columns = [s for s in derive(body, TARGET) if "columns=true" in s.title]
    assert columns
    for sketch in columns:
        tree = default_tree(body, sketch)
        assert [stage.copies is None for stage in tree.stages] == [False, False, True]
        assert "im2col" in sketch.text
        assert "inline" in sketch.text
