"""Trials on devices with memory of their own: how each ends, several devices at once, the command line."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tilesmith as ts
from contracts.device import PLAIN
from contracts.fake_drivers import installed
from contracts.fake_gpu import FakeGpu
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import MissingExtra, TargetError
from tilesmith.measure import local
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.process.environment import visible_devices
from tilesmith.measure.requests import ConfirmRequest, TimeRequest
from tilesmith.measure.result import DEVICE, Job, Measurement, Status
from tilesmith.measure.timing.timer import Timer
from tilesmith.runtime.devices import choose
from tilesmith.runtime.devices.cuda.device import CudaPort
from tilesmith.runtime.devices.cuda.opening import open_driver
from tilesmith.runtime.devices.gpu import GpuDevice
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.targets.backend import Gpu
from tilesmith.targets.cuda import devices as nvidia
from tilesmith.targets.target import parse_target
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.text.canonical import canonical

EMULATED = parse_target("cuda:emulator")
PROGRAM = canonical(PLAIN)
TEXT = print_program(PROGRAM)
OTHER = canonical(ts.parse(str(print_program(PLAIN)).replace("+ 1", "+ 2")))


class Quiet:
    """A link to nobody."""

    def stage(self, name: str, item: int = 0) -> None:
        pass

    def quiet(self) -> None:
        pass


def candidate(program: Any = PROGRAM, target: str = "cuda:emulator") -> Artifact:
    return build(program, UNSCHEDULED, {}, parse_target(target), 1)


def request(artifact: Artifact) -> TimeRequest:
    return TimeRequest(TEXT, pickle.dumps(artifact), 1)


def tried(timer: Timer, artifact: Artifact) -> Measurement:
    end = timer.handle(request(artifact), Quiet())  # type: ignore[arg-type]
    assert isinstance(end, Measurement)
    return end


@pytest.fixture
def timer() -> Timer:
    return Timer(device="cuda:emulator")


def faulty() -> Artifact:
    """A kernel that is started with twice as many blocks as it is made for."""
    good = candidate()
    return replace(good, launches=tuple(replace(one, grid=(2,)) for one in good.launches))


def test_right_is_timed(timer: Timer) -> None:
    end = tried(timer, candidate())
    assert end.ok and end.times and end.device == "cuda:emulator" and end.compile_seconds > 0


def test_wrong_is_told_from_right(timer: Timer) -> None:
    end = tried(timer, candidate(OTHER))
    assert end.status is Status.WRONG_RESULT and "expected" in end.failure.message  # type: ignore[union-attr]


def test_what_is_never_written_shows(timer: Timer) -> None:
    assert "never written" in str(tried(timer, replace(candidate(), launches=())).failure)


def test_fault_is_a_crash_of_that_candidate(timer: Timer) -> None:
    end = tried(timer, faulty())
    assert end.status is Status.CRASH and end.failure is not None
    assert end.failure.stage == "verify" and "race" in end.failure.message
    assert tried(timer, candidate()).ok


def test_no_memory_is_an_end_like_any_other(timer: Timer) -> None:
    end = tried(timer, replace(candidate(), workspace_bytes=1 << 40))
    assert end.status is Status.OUT_OF_MEMORY
    assert tried(timer, candidate()).ok


def test_code_of_another_kind(timer: Timer) -> None:
    assert tried(timer, candidate(target="cuda:sm_80")).status is Status.COMPILE_ERROR


def test_contenders_are_compared(timer: Timer) -> None:
    items = (request(candidate()), request(candidate(OTHER)), request(candidate()))
    ends = timer.handle(ConfirmRequest(items), Quiet())  # type: ignore[arg-type]
    assert isinstance(ends, tuple)
    assert [end.status for end in ends] == [Status.OK, Status.WRONG_RESULT, Status.OK]


# ---- a CUDA device, with a driver that is none


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpu]:
    gpu = FakeGpu()
    gpu.knows(candidate(target="cuda:sm_90"), candidate())
    with installed(gpu, "bindings"):
        monkeypatch.setattr(choose, "open_device", lambda name: GpuDevice(CudaPort(open_driver(0), 0)))
        yield gpu


def test_what_the_driver_knows_is_recorded(fake: FakeGpu) -> None:
    end = tried(Timer(device="cuda:0"), candidate(target="cuda:sm_90"))
    assert end.ok and "registers=40 local_bytes=0" in end.device and end.compile_seconds > 0


def test_an_illegal_address_costs_that_candidate_alone(fake: FakeGpu) -> None:
    timer = Timer(device="cuda:0")
    good = candidate(target="cuda:sm_90")
    assert tried(timer, good).ok
    fake.breaks("CUDA_ERROR_ILLEGAL_ADDRESS")
    end = tried(timer, good)
    assert end.status is Status.CRASH and "illegal address" in end.failure.message  # type: ignore[union-attr]
    assert tried(timer, good).ok


@pytest.mark.parametrize("call", ["cuModuleLoadDataEx", "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoDAsync"])
def test_a_device_that_was_broken_before_is_not_a_candidates_fault(fake: FakeGpu, call: str) -> None:
    timer, good = Timer(device="cuda:0"), candidate(target="cuda:sm_90")
    fake.fails[call] = "CUDA_ERROR_ILLEGAL_ADDRESS", 1
    if call == "cuMemcpyDtoDAsync":
        assert tried(timer, good).failure.stage == DEVICE  # type: ignore[union-attr]
        fake.fails[call] = "CUDA_ERROR_ILLEGAL_ADDRESS", 1
    end = tried(timer, good)
    assert end.status is Status.UNSTABLE and end.failure is not None and end.failure.stage == DEVICE
    assert "was broken before" in end.failure.message
    assert tried(timer, good).ok


def test_what_finds_its_device_broken_is_tried_again_in_a_new_process(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    timer = "helpers.devices.lost_timer:LostOnce"
    for compare in (False, True):
        (tmp_path / "broken").touch()
        os.environ["LOST_ONCE"] = str(tmp_path / "broken")
        try:
            with LocalRunner(EMULATED.text, 1, builders=1, timer=timer) as runner:
                before = runner.children[0]
                if compare:
                    ends = dict(runner.confirm([job(1), job(2)]))
                else:
                    runner.submit(job(1))
                    ends = dict(runner.collect(30))
                assert ends and all(end.ok for end in ends.values()), ends
                assert runner.children[0] != before
        finally:
            del os.environ["LOST_ONCE"]


def test_a_fault_while_the_clock_runs(fake: FakeGpu) -> None:
    timer, good = Timer(device="cuda:0"), candidate(target="cuda:sm_90")
    assert tried(timer, good).ok
    launches = fake.calls.count("cuLaunchKernel")
    fake.calls.clear()

    class LateFault(Quiet):
        def quiet(self) -> None:
            fake.breaks("CUDA_ERROR_LAUNCH_FAILED")

    end = timer.handle(request(good), LateFault())  # type: ignore[arg-type]
    assert isinstance(end, Measurement) and launches
    assert end.status is Status.CRASH and end.failure is not None and end.failure.stage == "time"


def test_refused_ptx_is_a_compile_error_with_the_log(fake: FakeGpu) -> None:
    fake.fails["cuModuleLoadDataEx"], fake.log = ("CUDA_ERROR_INVALID_PTX", 1), "line 7: no"
    end = tried(Timer(device="cuda:0"), candidate(target="cuda:sm_90"))
    assert end.status is Status.COMPILE_ERROR and "line 7: no" in end.failure.message  # type: ignore[union-attr]


def test_a_search_without_a_binding_ends_before_it_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvidia, "gpus", lambda: (Gpu("H", (9, 0), 132, 1, 1),))
    with installed(FakeGpu(), ""), pytest.raises(MissingExtra, match="cuda-bindings"):
        ts.tune(PLAIN, target="cuda:sm_80", trials=1, db=tmp_path / "t.sqlite", progress=False)


def test_a_search_without_a_gpu_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvidia, "gpus", tuple)
    with pytest.raises(TargetError, match="NVIDIA device"):
        ts.tune(PLAIN, target="cuda:sm_80", trials=1, db=tmp_path / "t.sqlite", progress=False)


# ---- children


def job(number: int) -> Job:
    return Job(number, TEXT, "", {}, EMULATED.text, 1)


def test_each_gpu_has_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = Gpu("A", (9, 0), 132, 1, 1)
    monkeypatch.setattr(nvidia, "gpus", lambda: (alike, Gpu("B", (8, 0), 100, 1, 1), alike))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_devices("cuda:sm_80") == [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "2"}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    assert visible_devices("cuda:sm_80") == [{"CUDA_VISIBLE_DEVICES": "4"}, {"CUDA_VISIBLE_DEVICES": "6"}]
    assert visible_devices("cuda:emulator") == visible_devices("host") == [{}]


def test_several_devices_share_the_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "visible_devices", lambda target: [{"CUDA_VISIBLE_DEVICES": n} for n in "01"])
    with LocalRunner(EMULATED.text, 1, builders=1) as runner:
        assert len(runner.children) == 3
        for number in range(4):
            runner.submit(job(number))
        ends: dict[int, Measurement] = {}
        while len(ends) < 4:
            ends.update(runner.collect(30))
        assert all(end.ok for end in ends.values())
        confirmed = runner.confirm([job(number) for number in (4, 5)])
        assert [end.ok for _, end in confirmed] == [True, True]


@pytest.mark.slow
def test_the_command_line_tunes_in_the_emulator(tmp_path: Path) -> None:
    database = tmp_path / "t.sqlite"
    command = ["run", "matmul", "m=96", "n=80", "k=70", "--target", "cuda:emulator", "--trials", "8", "--db"]
    done = subprocess.run(
        [sys.executable, "-m", "tilesmith", *command, str(database)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "says nothing about any GPU" in done.stdout and "8 ok" in done.stdout


def test_a_search_in_the_emulator_ends_in_a_kernel_that_is_right(tmp_path: Path) -> None:
    program, path = ts.ops.matmul(m=20, n=24, k=18), tmp_path / "t.sqlite"
    result = ts.tune(program, target="cuda:emulator", trials=3, db=path, progress=False)
    assert result.tasks[0].best is not None
    import numpy as np

    a, b = np.ones((20, 18), np.float32), np.ones((18, 24), np.float32)
    assert (ts.compile(program, target="cuda:emulator", db=path)(a, b) == 18).all()
