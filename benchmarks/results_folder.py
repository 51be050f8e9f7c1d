"""results_folder: where figures of this processor are kept.

Figures of processors with and without a matrix unit, or with and without AVX-512, are never of one table: a file that one kind
has written is not written over by another.
"""

from __future__ import annotations

from pathlib import Path

from tilesmith.targets.target import Target, parse_target

RESULTS = Path(__file__).parent / "results"


def results_folder(target: Target | None = None) -> Path:
    """benchmarks/results/ with a matrix unit, else the folder in it named after the level of the target (this machine)."""
    known = target or parse_target("host")
    folder = RESULTS if known.has_matrix_unit else RESULTS / known.level
    folder.mkdir(parents=True, exist_ok=True)
    return folder
