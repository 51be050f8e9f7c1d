"""Runners by name."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ..common.errors import ArgumentError
from ..measure.result import Runner
from .problem import Problem


def runner_for(problem: Problem, runner: str | Runner) -> AbstractContextManager[Runner]:
    """A new runner that is closed at the end, or the caller's own, which is not. ArgumentError: an unknown name."""
    if not isinstance(runner, str):
        return nullcontext(runner)
    if runner != "local":
        raise ArgumentError("unknown runner", expected="local, or an object that is a Runner", found=repr(runner))
    from ..measure.local import LocalRunner

    return LocalRunner(problem.identity.target, problem.identity.threads, ceilings=problem.ceilings)
