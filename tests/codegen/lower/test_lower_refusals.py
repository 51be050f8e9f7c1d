"""What has no code yet ends in one error that names it, says what would do, and marks the place in the outline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilesmith.codegen.lower.lower import lower
from tilesmith.common.errors import ScheduleError
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.targets.target import parse_target
from tilesmith.tensor.ops import matmul
from tilesmith.tensor.text.canonical import canonical

PROGRAM = canonical(matmul(6, 7, 8))
TARGET = parse_target("x86:avx512")


def copied(s: Schedule, scope: str = "") -> str:
    i, j, k = s.stage("t0").loops
    s.reorder(k, i, j)
    return s.compute_at(s.copy("x0", "t0", scope).name, k).name


CASES: dict[str, tuple[Callable[[Schedule], object], str]] = {
    "blocks": (lambda s: s.bind("block", 0, s.stage("t0").loops[0]), "t0.a0 is bound to GPU blocks"),
    "warps": (lambda s: s.bind("warp", 0, s.stage("t0").loops[1]), "t0.a1 is bound to GPU warps"),
    "shared": (lambda s: copied(s, "shared"), "copy0 lives in shared memory"),
    "registers": (lambda s: copied(s, "register"), "copy0 (cannot stay in registers|lives in register memory)"),
    "tensorized": (lambda s: s.tensorize("t0", "amx_bf16"), "instruction amx_bf16"),
    "pipeline": (lambda s: s.pipeline(s.stage("t0").loops[2], 3), "pipeline of 3"),
    "swizzle": (lambda s: s.swizzle(copied(s), 3), "swizzle of 3"),
    "vector": (lambda s: s.vectorize(s.split(s.stage("t0").loops[1], 3)[1]), "the vector t0.a1.p1 has 3 trips"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    template, problem = CASES[name]
    (sketch,) = trace(lambda s: template(s) and None, PROGRAM, name)
    with pytest.raises(ScheduleError, match=problem) as caught:
        lower(sketch.apply(PROGRAM, TARGET, {}), TARGET)
    assert caught.value.expected
    assert caught.value.where.count("<-- here") == 1


def test_hints_that_ask_for_nothing_are_taken() -> None:
    def template(s: Schedule) -> None:
        s.pipeline(s.stage("t0").loops[2], 1)
        s.prefetch("x1", s.stage("t0").loops[2], 0)
        made = copied(s)
        s.pad_layout(made, 0)
        s.swizzle(made, 0)

    (sketch,) = trace(template, PROGRAM)
    assert lower(sketch.apply(PROGRAM, TARGET, {}), TARGET).nests
