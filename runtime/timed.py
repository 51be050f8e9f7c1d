"""How often calls are repeated until their median says what one takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

ROUNDS = 9
ROUND_SECONDS = 0.02
_COLD_CALLS = 200


def median_of_rounds(calls: Callable[[int], float]) -> float:
    """The median seconds of a call. `calls` says how long so many of them take."""
    count = max(1, round(ROUND_SECONDS / max(calls(1), 1e-9)))
    return _median([calls(count) / count for _ in range(ROUNDS)])


def median_of_cold_calls(call: Callable[[], float], evict: Callable[[], None]) -> float:
    """The median seconds of a call behind `evict`, which is outside of what is timed."""
    times: list[float] = []
    while len(times) < ROUNDS or (len(times) < _COLD_CALLS and sum(times) < ROUNDS * ROUND_SECONDS):
        evict()
        times.append(call())
    return _median(times)


def _median(times: Sequence[float]) -> float:
    from statistics import median  # takes as long to import as all that a call of a kernel needs

    return median(times)
