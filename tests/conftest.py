"""Settings of all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from tilesmith.common.settings import SHIPPED, VERIFY

# How long one example takes says how busy the machine is; whole tests have a limit of their own (pyproject.toml).
# `make test` tries the same examples at every run; `make test-slow` looks for new ones.
settings.register_profile("same", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("new", deadline=None, print_blob=True)
settings.load_profile("same")

os.environ[VERIFY.name] = "1"  # loop IR after each pass, in the children of tests too
os.environ[SHIPPED.name] = "0"  # what is picked must not depend on what was tuned elsewhere

# A shell starts what runs in its background deaf to ctrl-C, and children inherit that: those of tests shall hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of our own."""
    parser.addoption("--keep-golden", action="store_true", help="keep the texts of tests/gpu/golden as they are now")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No look for garbage while tests are collected, and none later at what was: half a million objects, all of which stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
