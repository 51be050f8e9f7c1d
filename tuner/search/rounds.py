"""What a model said of a batch before it was measured, against what was measured: held-out figures, one set a round."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ...cost_model.learned.metrics import average_peak, rank_correlation, recall_of_best, regret


@dataclass(frozen=True, slots=True)
class Round:
    """One batch. `known`: trials that the model had learned from; `foreign`: of them, those of other tasks."""

    number: int
    known: int
    foreign: int
    batch: int
    failed: int
    correlation: float  # Spearman's, -1 .. 1
    peak: float  # a-peak@batch, 0 .. 1
    recall: float  # of the best few among as many first ones, 0 .. 1
    regret: float  # of taking the first by prediction, 0 is perfect
    error: float  # median of |log(predicted / measured)|
    seconds: float  # that fitting took afterwards

    def to_json(self) -> str:
        """Writes it for the database."""
        return json.dumps({name: round(v, 6) if isinstance(v, float) else v for name, v in asdict(self).items()})

    @staticmethod
    def from_json(text: str) -> Round:
        """Returns what `to_json` wrote. Errors: ValueError for anything else."""
        figures = json.loads(text)
        if not isinstance(figures, dict) or figures.keys() != {field.name for field in fields(Round)}:
            raise ValueError("these are no figures of a round")
        if not all(isinstance(number, int | float) for number in figures.values()):
            raise ValueError("a figure of a round is no number")
        return Round(**figures)


def judged(
    number: int, known: int, foreign: int, predicted: NDArray[np.float64], measured: NDArray[np.float64], top: int
) -> Round:
    """The figures of one batch: float64[n] predicted and measured seconds (infinity: failed), n at least 1.

    `top`: how many of the batch are the best few.
    """
    top = min(top, len(measured))
    ok = np.isfinite(measured)
    error = float(np.median(np.abs(np.log(predicted[ok] / measured[ok])))) if ok.any() else 0.0
    worst = 10.0 * float(measured[ok].max()) if ok.any() else 1.0
    return Round(
        number=number,
        known=known,
        foreign=foreign,
        batch=len(measured),
        failed=int((~ok).sum()),
        correlation=rank_correlation(predicted, measured),
        peak=average_peak(predicted, measured, len(measured)),
        recall=recall_of_best(predicted, measured, top, top),
        regret=regret(predicted, np.where(ok, measured, worst)),
        error=error,
        seconds=0.0,
    )
