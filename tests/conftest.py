"""Settings of all tests."""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from helpers.compiled_once import compile_again, compile_once
from helpers.small_drafts import draft_all, draft_little
from helpers.warm.client import NEW_PROCESS, join
from tilesmith.common.settings import CACHE, SHIPPED, VERIFY
from tilesmith.measure.calibrate.calibrate import _keep, _path
from tilesmith.measure.process import child
from tilesmith.measure.process.child import Child
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target

# How long one example takes says how busy the machine is; whole tests have a limit of their own (pyproject.toml).
# `make test` tries the same examples at every run; `make test-slow` looks for new ones.
settings.register_profile("same", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("new", deadline=None, print_blob=True)
settings.load_profile("same")

os.environ[VERIFY.name] = "1"  # loop IR after each pass, in the children of tests too
os.environ[SHIPPED.name] = "0"  # what is picked must not depend on what was tuned elsewhere

# Threads of a BLAS wait for one another in a loop: for longer than products of small arrays take, and others have the cores.
threadpool_limits(1, user_api="blas")  # of NumPy's, which is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of SciPy's later on, and of children

# A shell starts what runs in its background deaf to ctrl-C, and children inherit that: those of tests shall hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _let_children_count() -> None:
    """Makes what is closed end by a signal at which it writes down what it ran: killed, as it is otherwise, it cannot."""
    close = Child.close

    def gently(one: Child) -> None:
        one.resume()
        one._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            one._process.wait(timeout=2.0)
        close(one)

    Child.close = gently  # type: ignore[method-assign]


if "COVERAGE_PROCESS_CONFIG" in os.environ:  # under `make coverage` alone
    _let_children_count()
else:
    join()


@pytest.fixture
def cold_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children start as they do outside of tests: as new interpreters."""
    monkeypatch.setattr(child, "new_process", NEW_PROCESS)


@pytest.fixture
def compiles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM compiles what it has compiled before, too."""
    compile_again(monkeypatch)


@pytest.fixture
def cache_with_drafts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of a test's own, but for the drafts and the ceilings: those of all tests are the same."""
    return _own_cache(monkeypatch, tmp_path / "cache", "drafts", "ceilings")


@pytest.fixture
def whole_drafts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is compiled is picked as outside of tests."""
    draft_all(monkeypatch)
    _own_cache(monkeypatch, tmp_path / "cache of whole drafts", "ceilings")


def _own_cache(monkeypatch: pytest.MonkeyPatch, folder: Path, *shared: str) -> Path:
    folder.mkdir(mode=0o700)
    for name in shared:
        common = CACHE.value() / name
        common.mkdir(exist_ok=True, mode=0o700)
        (folder / name).symlink_to(common)
    monkeypatch.setenv(CACHE.name, str(folder))
    return folder


def pytest_configure(config: pytest.Config) -> None:
    """All processes of a run share a cache of their own, in which ceilings are kept: nothing is calibrated, and what is drafted
    here serves nobody else."""
    compile_once()
    if config.getoption("--hypothesis-profile") != "new":
        draft_little()
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    folder = tempfile.mkdtemp(prefix="tilesmith-tests-")
    os.environ[CACHE.name] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    target = parse_target("host")
    for threads in range(1, target.cores + 1):
        _keep(_path(target, threads), default_ceilings(target, threads).to_json())


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
        gc.set_threshold(20_000, 20, 50)  # what tests make is dropped by its counts of references, nearly all of it
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Of tests that are not to run, as they are slow, no items are made: they are a quarter of all."""
    marks = [mark.name for mark in getattr(obj, "pytestmark", ()) if isinstance(mark, pytest.Mark)]
    left_out = "slow" in marks and collector.config.option.markexpr == "not slow and not gpu"
    return [] if left_out and inspect.isfunction(obj) else None
