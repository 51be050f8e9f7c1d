"""results_folder: where figures of this processor are kept.

Figures of processors with and without AVX-512 are never of one table: a file that one kind has written is not written over by
the other.
"""

from __future__ import annotations

from pathlib import Path

from tilesmith.targets.target import Target, parse_target

RESULTS = Path(__file__).parent / "results"


def results_folder(target: Target | None = None) -> Path:
    """benchmarks/results/ with AVX-512, else the folder in it that is named after the level of the target (this machine)."""
    level = (target or parse_target("host")).level
    folder = RESULTS if level == "avx512" else RESULTS / level
    folder.mkdir(parents=True, exist_ok=True)
    return folder
