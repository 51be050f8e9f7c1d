"""Clusters on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contracts.ray_cluster import Cluster


@pytest.fixture(scope="module")
def workers_path() -> Iterator[None]:
    """Workers find the fakes."""
    with pytest.MonkeyPatch.context() as patch:
        tests = str(Path(__file__).parents[1])
        patch.setenv("PYTHONPATH", os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]))
        patch.setenv(
            "RAY_prestart_worker_first_driver", "0"
        )  # workers start as they are needed: each imports for a second
        yield


@pytest.fixture(scope="module")
def cluster(workers_path: None) -> Iterator[Cluster]:
    made = Cluster(1)
    yield made
    made.ray.shutdown()


@pytest.fixture
def new_cluster(workers_path: None) -> Iterator[Callable[[int], Cluster]]:
    made: list[Cluster] = []

    def make(nodes: int) -> Cluster:
        made.append(Cluster(nodes))
        return made[-1]

    yield make
    for one in made:
        one.ray.shutdown()
