"""What a search needs beside what a compile needs: packages that an installation which only compiles may leave away."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable
from importlib.util import find_spec

from ..common.errors import EnvironmentFailure

_WITHOUT_GPU = ("linux-x86_64", "linux-aarch64", "win-amd64")  # where xgboost-cpu has wheels, as pyproject.toml says


def boosting_distribution(platform: str) -> str:
    """Returns what pip installs as `xgboost` there: the one without libraries for GPUs, where there is a wheel of it."""
    return "xgboost-cpu" if platform in _WITHOUT_GPU else "xgboost"


LEARNING = {
    "xgboost": boosting_distribution(sysconfig.get_platform()),
    "sklearn": "scikit-learn",
    "threadpoolctl": "threadpoolctl",
}


def missing_packages() -> list[str]:
    """Names those that learning needs and that are not installed."""
    return [package for package in LEARNING if find_spec(package) is None]


def install_command(missing: Iterable[str]) -> str:
    """Returns the command that adds some of them."""
    return f"pip install {' '.join(LEARNING[package] for package in missing)}"


def check_packages(strategy: str) -> None:
    """Raises EnvironmentFailure, before anything is measured, where a package is missing that the strategy needs."""
    missing = missing_packages()
    if missing:
        raise EnvironmentFailure(
            f"the strategy {strategy!r} learns from what it measures, and needs packages that are not installed",
            expected=", ".join(LEARNING),
            found=f"no {', no '.join(missing)}",
            advice=f"{install_command(missing)}; or search without a model: strategy='evolution'; compiling needs none of them",
        )
