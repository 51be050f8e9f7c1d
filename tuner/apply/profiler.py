"""What `kernel.profile()` says of what was measured: worked out when somebody asks, and plain data, so that kernels can be
pickled."""

from __future__ import annotations

from dataclasses import dataclass

from ...graph.executor.profile import Cost, Profile, profile_of
from ...graph.executor.provenance import CallOrigin
from ...measure.calibrate.calibrate import known_ceilings
from ...runtime.profiled import MeasuredRuns
from ...targets.ceilings import Ceilings
from ...targets.target import Target
from ...tensor.program import Program
from ..roofline import program_work


@dataclass(frozen=True, slots=True)
class Profiler:
    """The calls of a run in order, and the program of each."""

    calls: tuple[CallOrigin, ...]
    programs: tuple[Program, ...]
    target: Target
    threads: int
    name: str = "model"

    def __call__(self, measured: MeasuredRuns) -> Profile:
        """The profile of runs in which the calls took so long."""
        ceilings = known_ceilings(self.target, self.threads)
        costs = [cost_of(one, self.target, ceilings) for one in self.programs]
        return profile_of(self.calls, costs, measured, self.name)


def cost_of(program: Program, target: Target, ceilings: Ceilings) -> Cost:
    """Returns what the kernel of a program has to do, and what the ceilings allow."""
    work = program_work(program)
    arithmetic, memory = work.arithmetic_seconds(ceilings), work.memory_seconds(ceilings)
    bound = _home(work.bytes, target, ceilings.threads) if memory >= arithmetic else "arithmetic"
    return Cost(work.flops, work.bytes, max(arithmetic, memory), bound)


def _home(size: int, target: Target, threads: int) -> str:
    """The nearest cache that holds so many bytes, shared out among the threads, or memory."""
    for level, cache in enumerate(target.caches, 1):
        if size <= cache.bytes * max(1, threads // cache.shared_by):
            return f"L{level}"
    return "memory"
