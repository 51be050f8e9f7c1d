"""The same record gives the same sketches, predictions, texts and bytes in any process, however it hashes strings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PORTION = 40


def digests(seed: int, first: int, last: int) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, str(TESTS / "helpers" / "digests.py"), str(first), str(last)],
        env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": path},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def compare(first: int, last: int) -> dict[str, str]:
    children = [digests(seed, first, last) for seed in (1, 2)]
    one, two = (json.loads(child.communicate(timeout=600)[0]) for child in children)
    assert one.keys() == two.keys()
    assert not [name for name in one if one[name] != two[name]]
    return dict(one)


def test_processes_that_hash_otherwise_make_the_same() -> None:
    found = compare(0, 16)
    assert sum(name.endswith("code") for name in found) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 240, PORTION))
def test_all_operators(first: int) -> None:
    compare(first, first + PORTION)
