"""Fair numbers from several devices of one kind: each times the same candidate, the anchor, again and again.

The first cheap candidate that ran becomes the anchor. Every device times it when it joins, and from time to time after
that. The ratio of its reading to the median of all devices is its *pace*: 1.05 is five per cent slower than its twins.
Times are divided by it. A device whose reading jumps is *drifting*: until two readings in a row agree, what it measures is
measured elsewhere. One that is far off is no twin, and is refused.

With a single device there is nothing to compare, and no anchor is timed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median

from ..result import Job, Measurement, Purpose

CHEAP = 0.5  # seconds that checking and timing an anchor may take
OFFERS = 8  # candidates looked at before the cheapest is taken although it is not cheap
EVERY = 50  # trials from one reading to the next, ...
REST = 10.0  # ... and at least so many seconds
JUMP = 0.10  # a reading that differs so much from the last ones is a drift
AGREE = 0.05  # two readings that are so near show that the drift is over
FARTHEST = 1.25  # slower or faster by this factor: no twin
SAME = 0.02  # below this a difference of pace is noise
MISSES = 3  # readings that may fail in a row
PATIENCE = 5.0  # seconds in which all devices should have read for the first time


@dataclass
class Gauge:
    """Holds what is known of one device."""

    readings: deque[float] = field(default_factory=lambda: deque(maxlen=3))
    steady: bool = True
    asked: bool = False  # a reading is under way
    wanted: bool = False  # one should be taken now
    trials: int = 0  # since the last reading
    at: float = 0.0  # when that was
    misses: int = 0


@dataclass
class Pacing:
    """The anchor, and what all devices together say of it."""

    anchor: Job | None = None
    reference: float | None = None
    _since: float = 0.0
    _offers: list[tuple[float, Job]] = field(default_factory=list)

    def offer(self, job: Job, measurement: Measurement, now: float) -> None:
        """Looks at a trial as an anchor. Until there is one, times are taken as they are."""
        if self.anchor is not None or not measurement.ok:
            return
        self._offers.append((measurement.check_seconds + measurement.measure_seconds, job))
        cost, best = min(self._offers, key=lambda offer: offer[0])
        if cost <= CHEAP or len(self._offers) >= OFFERS:
            self.anchor, self._since = replace(best, limit=None, purpose=Purpose.SEARCH), now
            self._offers.clear()

    def due(self, gauge: Gauge, now: float) -> bool:
        """Says whether the device should time the anchor next."""
        if self.anchor is None or gauge.asked:
            return False
        return gauge.wanted or not gauge.readings or (gauge.trials >= EVERY and now - gauge.at >= REST)

    def read(self, gauge: Gauge, measurement: Measurement, now: float) -> None:
        """Takes a reading; `steady` says afterwards whether the device can be believed."""
        gauge.asked, gauge.wanted = False, False
        gauge.trials, gauge.at = 0, now
        if not measurement.ok:
            gauge.misses += 1
            gauge.wanted = gauge.misses < MISSES
            return
        gauge.misses = 0
        before = median(gauge.readings) if gauge.readings else measurement.seconds
        if not gauge.steady:
            gauge.steady = abs(measurement.seconds / gauge.readings[-1] - 1) <= AGREE
        elif abs(measurement.seconds / before - 1) > JUMP:
            gauge.steady = False
        if not gauge.steady:
            gauge.readings.clear()
        gauge.wanted = not gauge.steady
        gauge.readings.append(measurement.seconds)

    def settle(self, gauges: Iterable[Gauge], now: float) -> None:
        """Fixes the reference once all devices have read, or have had their time."""
        if self.anchor is None or self.reference is not None:
            return
        found = list(gauges)
        first = [gauge.readings[0] for gauge in found if gauge.readings]
        waiting = any(not gauge.readings and gauge.misses < MISSES for gauge in found)
        if first and (not waiting or now - self._since > PATIENCE):
            self.reference = median(first)

    def pace(self, gauge: Gauge) -> float | None:
        """Times are divided by this; None while it is not known."""
        if self.reference is None or not gauge.readings:
            return None
        pace = median(gauge.readings) / self.reference
        return pace if abs(pace - 1) > SAME else 1.0

    def why_unlike(self, gauge: Gauge) -> str:
        """Says why this device is no twin of the others; "" when it is, or it is not known."""
        if gauge.misses >= MISSES and not gauge.readings:
            return "it cannot time what ran elsewhere"
        pace = self.pace(gauge)
        if pace is None or not gauge.steady or 1 / FARTHEST <= pace <= FARTHEST:
            return ""
        return f"it is {max(pace, 1 / pace):.2f} times {'slower' if pace > 1 else 'faster'} than its twins"


def normalised(measurement: Measurement, pace: float) -> Measurement:
    """The measurement as the median device would have made it."""
    if pace == 1.0 or not measurement.times:
        return measurement
    times = tuple(seconds / pace for seconds in measurement.times)
    return replace(measurement, times=times, device=f"{measurement.device}, divided by its pace {pace:.3f}")
