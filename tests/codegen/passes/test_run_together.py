"""Light nests run beside others that do not wait for them, and nowhere else; what is computed stays the same."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import random_config
from tilesmith.codegen.ir.loop_ir import Nest
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.passes.run_together import LIGHT, run_together
from tilesmith.codegen.pipeline import build, loop_program
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import Sketch, parse_sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
STEPS = """
    sketch by hand
    step split(t0.a1, lanes(f32))
    step vectorize(t0.a1.p1)
    step parallel(t0.a0)
    step split(t1.a2, lanes(f32))
    step vectorize(t1.a2.p1)
    step parallel(t1.a0, t1.a1)
    """


def program(rows: int, first: str = "x[i, j] + 1", second: str = "x[p + 7 * q, j] * 3") -> Program:
    """A stage of so many rows before one of 7 times 11."""
    return canonical(
        parse(f"""
            input x: f32[{max(rows, 77)}, 400]
            t[i: {rows}, j: 400] = {first}
            u[q: 11, p: 7, j: 400] = {second}
            return t, u
            """)
    )


def nests(wanted: Program, steps: str = STEPS, threads: int = 2) -> tuple[Nest, ...]:
    return run_together(loop_program(wanted, parse_sketch(steps), {}, HOST), HOST, threads).nests


@pytest.mark.parametrize("rows", [2, 7, 50, 76, 77, 78, 130])
@pytest.mark.parametrize("threads", [2, 3])
def test_each_trip_of_both_runs_once(rows: int, threads: int) -> None:
    wanted = program(rows)
    assert len(nests(wanted)) == 1
    x = np.random.default_rng(rows).standard_normal((max(rows, 77), 400), np.float32)
    t, u = Kernel(build(wanted, parse_sketch(STEPS), {}, HOST, threads))(x)
    np.testing.assert_array_equal(t, x[:rows] + 1)
    np.testing.assert_array_equal(u, 3 * x[:77].reshape(11, 7, 400))


def test_what_is_read_later_is_computed_before() -> None:
    assert len(nests(program(77, second="t[p + 7 * q, j] * 3"))) == 2


def test_heavy_nests_have_regions_of_their_own() -> None:
    rows = int(LIGHT) // 25
    assert len(nests(program(rows, second=f"x[(p + 7 * q) * {rows // 77}, j] * 3"))) == 2


def test_all_threads_keep_some_of_it() -> None:
    """77 trips are enough for 7 however many threads there are, and for 78 on 19 threads, but not on 20."""
    assert [len(nests(program(rows), threads=threads)) for rows, threads in ((7, 64), (78, 19), (78, 20))] == [1, 1, 2]


def test_nests_without_threads_stay_as_they_are() -> None:
    for loop in ("t0.a0", "t1.a0, t1.a1"):
        assert len(nests(program(77), STEPS.replace(f"    step parallel({loop})\n", ""))) == 2


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_what_fast_convolutions_ask_starts_no_threads_of_its_own(layout: str) -> None:
    """Where they are not done in bands: there, what is asked of a band is asked inside of it."""
    target = parse_target("x86:avx512")  # with shorter vectors one of them is no light nest
    task = Task.of(ops.conv2d(1, 64, 56, 56, 64, kernel=3, padding=1, layout=layout, constants=("W",)), target, 2)
    chosen = [s for s in task.sketches if {"t0 fast": 4, "in bands": False}.items() <= _variants(s).items()]
    assert chosen
    for sketch in chosen:
        config = random_config(task, sketch, np.random.default_rng(0))
        assert config is not None
        loops = loop_program(task.program, sketch, config, target)
        less = run_together(loops, target, 2)
        assert len(less.nests) == len(loops.nests) - 2, print_loops(less)


def _variants(sketch: Sketch) -> dict[str, object]:
    return {name if name == "t0 fast" else name.partition(" ")[2]: value for name, value in sketch.variants}
