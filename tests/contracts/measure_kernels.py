"""Hand-written kernels, good and bad, as artifacts: B[i] = 2 * A[i] and what can go wrong with it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache
from math import inf

from tilesmith.codegen.artifact import Artifact, BufferSpec, Launch
from tilesmith.codegen.backends.cpu import compile_object
from tilesmith.measure.process.builder import Built
from tilesmith.measure.process.worker import Link
from tilesmith.measure.requests import TimeRequest
from tilesmith.measure.result import Job
from tilesmith.measure.timing.method import CONFIRM_PLAN, SEARCH_PLAN, TimingPlan
from tilesmith.measure.timing.timer import Timer
from tilesmith.targets.ceilings import Ceilings
from tilesmith.targets.target import parse_target

HAND_BUILDER = f"{__name__}:HandBuilder"
TRUSTING_TIMER = f"{__name__}:TrustingTimer"
SIZE = 1000  # no multiple of a cache line: the guarded arrays begin anywhere

PROGRAM = f"input A: f32[{SIZE}]\nB[i: {SIZE}] = A[i] * 2.0\nreturn B\n"

_IR = """
define void @double(ptr %arguments, ptr %prepared, ptr %workspace) {{
entry:
  %a = load ptr, ptr %arguments
  %slot = getelementptr ptr, ptr %arguments, i64 1
  %b = load ptr, ptr %slot
  br label %outer
outer:
  %again = phi i64 [ 0, %entry ], [ %again.next, %outer.end ]
  br label %loop
loop:
  %i = phi i64 [ {start}, %outer ], [ %next, %loop ]
  %from = getelementptr float, ptr %a, i64 %i
  %x = load volatile float, ptr %from
  %y = fmul float %x, {factor}
  %to = getelementptr float, ptr {into}, i64 %i
  store volatile float %y, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {end}
  br i1 %more, label %loop, label %outer.end
outer.end:
  %again.next = add i64 %again, 1
  %over = icmp slt i64 %again.next, {times}
  br i1 %over, label %outer, label %done
done:
  ret void
}}
"""

KERNELS: dict[str, dict[str, object]] = {
    "right": {},
    "slow": {"times": 50},
    "hangs": {"times": 1 << 62},
    "wrong": {"factor": "3.0"},
    "short": {"end": SIZE - 1},
    "writes past the end": {"end": SIZE + 1},
    "writes before the start": {"start": -2000},
    "writes to its input": {"into": "%a"},
    "writes to null": {"into": "null"},
}


@cache
def artifact(kind: str) -> Artifact:
    """The compiled kernel of this kind."""
    host = parse_target("host")
    numbers = {"start": 0, "end": SIZE, "factor": "2.0", "into": "%b", "times": 1, **KERNELS[kind]}
    compiled = compile_object(_IR.format(**numbers), host)
    return Artifact(
        name="double", target=host.text, threads=1, format="object", code=compiled.code, symbol="double",
        inputs=(BufferSpec("A", "f32", (SIZE,)),), constants=(), outputs=(BufferSpec("B", "f32", (SIZE,)),),
        prepared_bytes=0, workspace_bytes=0, launches=(Launch("double"),), builder="by hand",
    )  # fmt: skip


def time_request(kind: str, limit: float | None = None) -> TimeRequest:
    """What a timer is asked about it."""
    return TimeRequest(PROGRAM, pickle.dumps(artifact(kind)), 1, limit)


class HandBuilder:
    """A builder child that hands out the kernels above."""

    def __init__(self, target: str | None = None) -> None:
        for kind in KERNELS:
            artifact(kind)

    def handle(self, request: Job, link: Link) -> Built:
        link.stage("compile")
        return Built(time_request(str(request.config["kind"])).artifact, "by hand", 0.0)


class TrustingTimer(Timer):
    """A timer that believes all times: these tests also run on machines that are busy with other things."""

    def __init__(
        self, ceilings: Ceilings | None = None, device: str = "cpu", alone: bool = False, seed: int = 0
    ) -> None:
        super().__init__(ceilings, _trusting(SEARCH_PLAN), _trusting(CONFIRM_PLAN), device, alone, seed)


def _trusting(plan: TimingPlan) -> TimingPlan:
    return replace(plan, settled=inf, unstable=inf)
