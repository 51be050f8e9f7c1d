"""A local runner with children that do what they are told (measure_fakes.py)."""

from __future__ import annotations

from typing import Any

from contracts.measure_fakes import BUILDER, TIMER
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.requests import TimeLimits

LIMITS = TimeLimits(
    start=60.0, compile=1.5, load=1.5, prepare=1.5, verify=1.5, time=1.5, build_memory=1 << 30, run_memory=1 << 30
)


def fake_runner(**options: Any) -> LocalRunner:
    return LocalRunner("fake", 1, **{"builder": BUILDER, "timer": TIMER, "limits": LIMITS, **options})
