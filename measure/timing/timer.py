"""What a timer child does: an artifact becomes a measurement. It is loaded, run once, checked, and timed if it was right."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ...common.errors import DeviceLost, KernelFault, OutOfDeviceMemory, TilesmithError
from ...targets.target import parse_target
from ..checking.bench import Bench, bench_of
from ..given import read
from ..process.environment import describe_environment
from ..process.worker import Link
from ..requests import ConfirmRequest, TimeRequest
from ..result import DEVICE, Failure, Measurement, Status
from .drift import OWN, Drift
from .method import PLANS, Repeat, Timing, TimingPlan, settled, time_kernel, undisturbed
from .plausible import too_fast
from .race import race

if TYPE_CHECKING:
    from ...codegen.artifact import Artifact
    from ...runtime.devices.base import LoadedKernel
    from ...targets.ceilings import Ceilings

_AGAIN = 4  # how often a timer doubts the ceilings rather than a kernel
_KEPT_BYTES = 2 << 30  # of programs that were measured before


@dataclass(frozen=True, slots=True)
class _Passed:
    """A kernel that was loaded and gave right outputs; `first` is the seconds of that run, `repeat` what the clock runs."""

    kernel: LoadedKernel
    bench: Bench
    first: float
    measurement: Measurement
    repeat: Repeat


class Timer:
    """Checks and times artifacts (a `worker.Handler`).

    Args:
        ceilings: what the machine can do; what is far above it is not believed. None: everything is.
        plan, confirm_plan: the numbers of the timing method; None: those of the device.
        device: the name of the device, see `runtime.devices.choose.open_device`.
        alone: no other timer's times are compared with these, so that the machine's drift can be taken out (drift.py).
        seed: of inputs, checked points and turns. It stands in the message of a wrong result, which it makes again.

    What a kernel breaks on a GPU is broken for all: a fault while several are compared ends the child, and the others begin
    again in a new one. What finds a device broken that it did not break is told so (DEVICE), and has another chance.
    """

    def __init__(
        self,
        ceilings: Ceilings | None = None,
        plan: TimingPlan | None = None,
        confirm_plan: TimingPlan | None = None,
        device: str = "cpu",
        alone: bool = False,
        seed: int = 0,
    ) -> None:
        from ...runtime.devices.choose import open_device

        self._device, self._seed = open_device(device), seed
        usual = PLANS[self._device.clock]
        self._again = _AGAIN
        self._ceilings, self._plan, self._confirm_plan = ceilings, plan or usual[0], confirm_plan or usual[1]
        self._benches: OrderedDict[str, Bench] = OrderedDict()
        self._drift = Drift(self._plan.shortest) if alone and self._device.clock == "host" else None
        self._refused: set[str] = set()  # programs whose reference tells nothing here
        self._name = self._device.name if self._device.own_memory else f"cpu {describe_environment()}"

    def handle(self, request: TimeRequest | ConfirmRequest, link: Link) -> Measurement | tuple[Measurement, ...]:
        """One trial, or all contenders of a confirmation in their order."""
        try:
            return self._trial(request, link) if isinstance(request, TimeRequest) else self._confirm(request, link)
        except DeviceLost as error:
            self._benches.clear()
            lost = self._failed(Status.UNSTABLE, DEVICE, str(error))
            return lost if isinstance(request, TimeRequest) else (lost,) * len(request.items)

    def _trial(self, request: TimeRequest, link: Link) -> Measurement:
        passed = self._check(request, link, 0)
        if isinstance(passed, Measurement):
            return passed
        drift = self._drift_of(request, passed.bench)
        reference = self._reference(request, drift, link)
        link.quiet()
        start = perf_counter()
        try:
            if drift is not None and reference is not None:
                self._begin(request, drift, reference, link)
            timing = self._timed(request, drift, passed)
        except KernelFault as error:
            return self._faulted(error, "time", passed.measurement)
        return self._judged(passed, timing, perf_counter() - start)

    def _drift_of(self, request: TimeRequest, bench: Bench) -> Drift | None:
        """Returns what takes the machine's drift out of a trial's times; None where nothing does."""
        own = sum(constant.nbytes for constant in bench.constants)
        return None if request.limit is None or (own > OWN and not request.cold) else self._drift

    def _reference(self, request: TimeRequest, drift: Drift | None, link: Link) -> tuple[_Passed, float] | None:
        """The kernel in whose units times of the program are told, loaded and checked, while no control is known."""
        known, program = request.reference, request.subject
        if drift is None or known is None or drift.knows(program) or program in self._refused:
            return None
        passed = self._check(replace(request, artifact=known.artifact), link, 1)
        if isinstance(passed, _Passed):
            return passed, known.seconds
        self._refused.add(program)
        return None

    def _begin(self, request: TimeRequest, drift: Drift, reference: tuple[_Passed, float], link: Link) -> None:
        """Times the reference, which becomes the control."""
        passed, seconds = reference
        link.stage("time", 1)
        timing = time_kernel(passed.repeat, passed.first, plan=self._plan)
        if not drift.begin(request.subject, passed.repeat, timing, seconds, request.limit or inf):
            self._refused.add(request.subject)
        link.stage("time", 0)

    def _timed(self, request: TimeRequest, drift: Drift | None, passed: _Passed) -> Timing:
        """The times of a kernel; where a control is known, what counts is its turns with that."""
        if drift is None or not drift.knows(request.subject):
            timing = time_kernel(passed.repeat, passed.first, request.limit, self._plan)
        else:
            # the turns are warm whatever the first repeat was, and what is dropped for it has a second chance
            plan = replace(self._plan, repeats=1, few_repeats=1, warming=0.0)
            pace = partial(drift.pace, request.subject)
            timing = time_kernel(passed.repeat, passed.first, request.limit, plan, pace)
        return timing if drift is None else drift.corrected(request.subject, passed.repeat, timing)

    def _confirm(self, request: ConfirmRequest, link: Link) -> tuple[Measurement, ...]:
        ends = self._check_all(request, link)
        yardsticks = [place for place, item in enumerate(request.items) if item.yardstick]
        right = {place: end for place, end in ends.items() if isinstance(end, _Passed) and place not in yardsticks}
        if right:
            link.quiet()
            start = perf_counter()
            rng = np.random.default_rng(self._seed)
            orders = (list(rng.permutation(len(right))) for _ in count())
            repeats = [_announced(passed.repeat, link, place) for place, passed in right.items()]
            times = race(repeats, orders, self._confirm_plan)
            share = (perf_counter() - start) / len(right)
            for (place, passed), of_one in zip(right.items(), times, strict=True):
                trusted = settled(of_one, self._confirm_plan).trusted
                ends[place] = self._judged(passed, Timing(of_one, trusted=trusted), share)
        judged = (end.measurement if isinstance(end, _Passed) else end for _, end in sorted(ends.items()))
        return tuple(judged)

    def _check_all(self, request: ConfirmRequest, link: Link) -> dict[int, _Passed | Measurement]:
        """Checks contenders thoroughly, by place; yardsticks first, as the others are compared with them."""
        order = sorted(range(len(request.items)), key=lambda place: not request.items[place].yardstick)
        compared = request.items[order[0]].yardstick
        link.stage("prepare", order[0])
        try:
            checker = self._bench(request.items[0]).checker
            checker.be_thorough(compared)
        except (MemoryError, OutOfDeviceMemory):
            checker = None  # each of them will say so
        ends: dict[int, _Passed | Measurement] = {}
        for place in order:
            ends[place] = self._check(request.items[place], link, place)
            if compared and checker is not None and not isinstance(ends[place], _Passed):
                checker.be_thorough(False)  # it is no yardstick
            compared = False
        return ends

    def _check(self, request: TimeRequest, link: Link, item: int) -> _Passed | Measurement:
        """Loads a kernel and runs it once. A wrong or unloadable one comes back as its measurement."""
        link.stage("load", item)
        artifact: Artifact = pickle.loads(request.artifact)
        start = perf_counter()
        try:
            kernel = self._device.load(artifact)
        except OutOfDeviceMemory as error:
            return self._failed(Status.OUT_OF_MEMORY, "load", str(error))
        except DeviceLost:
            raise
        except TilesmithError as error:
            return self._failed(Status.COMPILE_ERROR, "load", str(error))
        # a GPU's driver compiles when it loads; a CPU's linker is part of the trial
        compiled = perf_counter() - start if self._device.own_memory else 0.0
        so_far = Measurement(Status.OK, compile_seconds=compiled, device=f"{self._name}{_facts(kernel)}")
        link.stage("prepare", item)
        try:
            bench = self._bench(request)
        except OutOfDeviceMemory as error:
            return self._failed(Status.OUT_OF_MEMORY, "prepare", str(error), so_far)
        link.stage("verify", item)
        start = perf_counter()
        try:
            kernel.prepare(bench.constants)
            first, message = bench.checked_run(kernel)
        except (MemoryError, OutOfDeviceMemory) as error:
            return self._failed(Status.OUT_OF_MEMORY, "verify", f"no memory for the workspace: {error}", so_far)
        except KernelFault as error:
            if item:
                raise
            return self._faulted(error, "verify", so_far)
        so_far = replace(so_far, check_seconds=perf_counter() - start, remark=bench.checker.remark)
        if message is not None:
            return self._failed(Status.WRONG_RESULT, "verify", f"{message} (data of seed {self._seed})", so_far)
        repeat = partial(kernel.run_repeat, bench.timed, cold=request.cold)
        return _Passed(kernel, bench, first, so_far, undisturbed(repeat) if self._device.clock == "host" else repeat)

    def _faulted(self, error: KernelFault, stage: str, so_far: Measurement) -> Measurement:
        """A kernel did what it may not: on a GPU all that was kept there may be gone."""
        self._benches.clear()
        return self._failed(Status.CRASH, stage, str(error), so_far)

    def _failed(self, status: Status, stage: str, message: str, so_far: Measurement | None = None) -> Measurement:
        known = so_far or Measurement(status, device=self._name)
        return replace(known, status=status, failure=Failure(stage, message))

    def _judged(self, passed: _Passed, timing: Timing, seconds: float) -> Measurement:
        """The measurement of a timed kernel, `unstable` if its times cannot be believed."""
        timed = replace(passed.measurement, times=timing.times, abandoned=timing.abandoned, measure_seconds=seconds)
        message = self._too_fast(passed, timing.seconds)
        if message is None and not timing.trusted:
            message = f"the times of {len(timing.times)} repeats are {timing.spread:.0%} of their median apart"
        if message is None:
            return timed
        return replace(timed, status=Status.UNSTABLE, failure=Failure("time", message))

    def _too_fast(self, passed: _Passed, seconds: float) -> str | None:
        """Says why a time cannot be true, or None. It may be the ceilings that are not, so those are measured again first."""
        message = too_fast(passed.bench.program, seconds, self._ceilings)
        if message is None or self._ceilings is None or self._device.own_memory or not self._again:
            return message
        from ..calibrate.calibrate import measured_again

        self._again -= 1
        self._ceilings = measured_again(parse_target(passed.kernel.artifact.target), self._ceilings)
        return too_fast(passed.bench.program, seconds, self._ceilings)

    def _bench(self, request: TimeRequest) -> Bench:
        """The bench of a program and its inputs; the ones used longest ago make room."""
        bench = self._benches.get(request.data)
        if bench is None:
            bench = bench_of(request.program, self._device, self._seed, read(request.inputs))
            self._benches[request.data] = bench
        self._benches.move_to_end(request.data)
        while len(self._benches) > 1 and sum(b.bytes for b in self._benches.values()) > _KEPT_BYTES:
            self._benches.popitem(last=False)
        return bench


def _facts(kernel: LoadedKernel) -> str:
    """Returns what the driver knows of the kernels, for people: "; registers=64 local_bytes=0 ...", the largest of several."""
    found = kernel.facts.values()
    names = dict.fromkeys(name for one in found for name in one)
    worst = {name: (min if name == "blocks" else max)(one[name] for one in found) for name in names}
    return "".join(f"{'; ' if not n else ' '}{name}={number}" for n, (name, number) in enumerate(worst.items()))


def _announced(repeat: Repeat, link: Link, item: int) -> Repeat:
    """Says whose turn it is before the clock is read, so that a crash is blamed on the right one."""

    def run(count: int) -> float:
        link.stage("time", item)
        return repeat(count)

    return run
