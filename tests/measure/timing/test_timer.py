"""The timer on hand-written kernels: in this process where they behave, in a child where they do not."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.measure_kernels import HAND_BUILDER, PROGRAM, TRUSTING_TIMER, TrustingTimer, artifact, time_request
from contracts.runner import gather
from tilesmith.codegen.pipeline import build
from tilesmith.measure.calibrate import calibrate
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.process.worker import Link
from tilesmith.measure.requests import ConfirmRequest, ReferenceKernel, TimeLimits, TimeRequest
from tilesmith.measure.result import Job, Measurement, Purpose, Status
from tilesmith.measure.timing.drift import Drift
from tilesmith.measure.timing.method import SEARCH_PLAN, Repeat, Timing
from tilesmith.measure.timing.plausible import too_fast
from tilesmith.measure.timing.timer import Timer
from tilesmith.runtime.devices.cpu import device as cpu
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import MATRIX, Ceilings, default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.ops import matmul
from tilesmith.tensor.text.parse import parse


class Notes(Link):
    """Remembers what the timer said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, name: str, item: int = 0) -> None:
        self.said.append(f"{name} {item}")

    def quiet(self) -> None:
        self.said.append("quiet")


@pytest.fixture(scope="module")
def timer() -> Timer:
    return TrustingTimer()


def trial(timer: Timer, kind: str, limit: float | None = None) -> Measurement:
    answer = timer.handle(time_request(kind, limit), Notes())
    assert isinstance(answer, Measurement)
    return answer


def test_a_right_kernel_is_timed(timer: Timer) -> None:
    notes = Notes()
    found = timer.handle(time_request("right"), notes)
    assert isinstance(found, Measurement) and found.ok and len(found.times) >= 3
    assert 1e-8 < found.seconds < 1e-4
    assert found.check_seconds > 0 and found.measure_seconds > 0
    assert notes.said == ["load 0", "prepare 0", "verify 0", "quiet"], "the clock is read when it is quiet"


def test_slow_is_slower_and_abandoned_only_against_a_limit(timer: Timer) -> None:
    right, slow = min(trial(timer, "right").times), trial(timer, "slow")
    assert min(slow.times) > 5 * right and not slow.abandoned  # 50 times the work; the first run is not all work
    dropped = trial(timer, "slow", limit=right / 2)
    assert dropped.ok and dropped.abandoned and len(dropped.times) == 1
    assert not trial(timer, "slow", limit=1.0).abandoned


@pytest.mark.parametrize(("kind", "words"), [("wrong", "B[0]: expected "), ("short", "B[999] was never written")])
def test_a_wrong_kernel_is_not_timed(timer: Timer, kind: str, words: str) -> None:
    found = trial(timer, kind)
    assert found.status is Status.WRONG_RESULT and found.times == ()
    assert found.failure is not None and found.failure.stage == "verify" and found.failure.message.startswith(words)


def test_what_does_not_link(timer: Timer) -> None:
    request = replace(time_request("right"), artifact=pickle.dumps(replace(artifact("right"), code=b"no object")))
    found = timer.handle(request, Notes())
    assert isinstance(found, Measurement) and found.status is Status.COMPILE_ERROR
    assert found.failure is not None and found.failure.stage == "load"


def test_a_workspace_without_memory(timer: Timer) -> None:
    huge = replace(artifact("right"), workspace_bytes=1 << 60)
    found = timer.handle(replace(time_request("right"), artifact=pickle.dumps(huge)), Notes())
    assert isinstance(found, Measurement) and found.status is Status.OUT_OF_MEMORY


def test_contenders_are_timed_in_turn(timer: Timer) -> None:
    kinds = ("right", "wrong", "slow")
    notes = Notes()
    answer = timer.handle(ConfirmRequest(tuple(map(time_request, kinds))), notes)
    assert isinstance(answer, tuple)
    right, wrong, slow = answer
    assert right.ok and len(right.times) >= 9 and slow.ok and SEARCH_PLAN.race <= len(slow.times) <= len(right.times)
    assert wrong.status is Status.WRONG_RESULT and wrong.times == ()
    assert min(right.times) < min(slow.times)
    rounds = [line for line in notes.said[notes.said.index("quiet") :] if line.startswith("time")]
    assert set(rounds) == {"time 0", "time 2"} and rounds.count("time 2") > SEARCH_PLAN.race
    assert rounds != sorted(rounds), "the contenders take turns"


def test_there_is_no_control_where_each_kernel_has_its_own_copy_of_much(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Drift, "corrected", lambda self, program, repeat, timing: asked.append(program) or timing)
    task = Task.of(matmul(1, 32, 32, constants=("B",)), parse_target("host"), 1)
    built = build(task.program, task.sketches[0], {}, task.target, 1)
    request = TimeRequest(task.text, pickle.dumps(built), 1, 1.0)
    for own in (4 * 32 * 32, 4 * 32 * 32 - 1):
        monkeypatch.setattr("tilesmith.measure.timing.timer.OWN", own)
        found = TrustingTimer(alone=True).handle(request, Notes())
        assert isinstance(found, Measurement) and found.ok
    assert len(asked) == 1
    found = TrustingTimer(alone=True).handle(replace(request, cold=True), Notes())
    assert isinstance(found, Measurement) and found.ok and len(asked) == 2, "cold ones are cold for all"


@pytest.mark.parametrize("cold", [False, True])
def test_cold_trials_and_confirmations_are_timed_with_cold_constants(
    monkeypatch: pytest.MonkeyPatch, cold: bool
) -> None:
    seen: list[int] = []

    def counted(*given: object) -> float:
        seen.append(len(given[-1]))  # type: ignore[arg-type]
        return original(*given)  # type: ignore[arg-type]

    original = cpu.repeat_cold
    monkeypatch.setattr(cpu, "repeat_cold", counted)
    task = Task.of(matmul(1, 32, 32, constants=("B",)), parse_target("host"), 1)
    built = build(task.program, task.sketches[0], {}, task.target, 1)
    request = TimeRequest(task.text, pickle.dumps(built), 1, cold=cold)
    found = TrustingTimer().handle(request, Notes())
    assert isinstance(found, Measurement) and found.ok and bool(seen) == cold
    seen.clear()
    (found,) = TrustingTimer().handle(ConfirmRequest((request,)), Notes())  # type: ignore[misc]
    assert isinstance(found, Measurement) and found.ok and bool(seen) == cold and set(seen) <= {1}


def test_a_standard_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[float, float]] = []

    def begin(self: Drift, program: str, repeat: Repeat, timing: Timing, seconds: float, best: float) -> bool:
        begun.append((seconds, best))
        return original(self, program, repeat, timing, timing.seconds, best)  # whatever this machine does meanwhile

    original = Drift.begin
    monkeypatch.setattr(Drift, "begin", begin)
    timer, notes, reference = TrustingTimer(alone=True), Notes(), ReferenceKernel(time_request("right").artifact, 2e-6)
    found = timer.handle(replace(time_request("slow", limit=1.0), reference=reference), notes)
    assert isinstance(found, Measurement) and found.ok and begun == [(2e-6, 1.0)]
    assert notes.said[-3:] == ["quiet", "time 1", "time 0"] and {"load 1", "verify 1"} < set(notes.said)
    again = timer.handle(replace(time_request("right", limit=1.0), reference=reference), notes := Notes())
    assert isinstance(again, Measurement) and notes.said == ["load 0", "prepare 0", "verify 0", "quiet"]


@pytest.mark.parametrize(("kind", "seconds"), [("wrong", 1e-6), ("right", 1e3)])
def test_a_standard_that_tells_nothing_is_not_asked_again(kind: str, seconds: float) -> None:
    timer = TrustingTimer(alone=True)
    request = replace(time_request("right", limit=1.0), reference=ReferenceKernel(time_request(kind).artifact, seconds))
    first = timer.handle(request, Notes())
    timer.handle(request, notes := Notes())
    assert isinstance(first, Measurement) and first.ok and not any(said.endswith("1") for said in notes.said)


def test_too_fast_to_be_true(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    program = parse("input A: f32[64, 64]\ninput B: f32[64, 64]\n"
                    "C[i: 64, j: 64] = sum[k: 64](A[i, k] * B[k, j])\nreturn C\n")  # fmt: skip
    ceilings = Ceilings({"f32": 1e9, "f64": 1e3}, ((1 << 14, 1e9),), 1)
    honest = 2 * 64**3 / 1e9
    assert too_fast(program, honest, ceilings) is None
    assert too_fast(program, honest / 1.4, ceilings) is None
    assert "times the ceiling of f32" in str(too_fast(program, honest / 2, ceilings))
    assert too_fast(program, honest / 2, None) is None
    with_unit = Ceilings({**ceilings.flops, MATRIX: 6 * 2e9}, ceilings.bandwidth, 1)
    assert too_fast(program, honest / 2, with_unit) is None, "f32 products on a matrix unit of twice the speed"
    assert "ceiling of f32" in str(too_fast(program, honest / 4, with_unit))
    assert "cache" in str(too_fast(parse(PROGRAM), 4000 / 1e9 / 2, ceilings))
    timer = TrustingTimer(Ceilings({"f32": 1.0}, ((1 << 14, 1e3),), 1))
    monkeypatch.setattr(calibrate, "measured_again", lambda target, known: asked.append(target) or known)
    for _ in range(6):
        found = trial(timer, "right")
        assert (
            found.status is Status.UNSTABLE and found.failure is not None and "fastest cache" in found.failure.message
        )
    assert len(asked) == 4, "then it is the kernels that are not believed"


def test_it_may_be_the_ceilings_that_are_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path))
    timer = TrustingTimer(Ceilings({"f32": 1.0}, ((1 << 14, 1e3),), 1))
    assert trial(timer, "right").ok and trial(timer, "right").ok
    assert calibrate.known_ceilings(parse_target("host"), 1).flops["f32"] > 1e9


@pytest.mark.parametrize(("target", "dtype", "fast", "impossible"), [
    ("cuda:sm_90a", "bf16", 800e12, 3000e12), ("cuda:sm_90a", "f16", 800e12, 3000e12), ("cuda:sm_80", "bf16", 290e12, 900e12),
    ("cuda:sm_90a", "f64", 60e12, 200e12), ("cuda:sm_90a", "f32", 60e12, 120e12), ("cuda:sm_80", "f32", 19e12, 120e12),
])  # fmt: skip
def test_what_a_gpu_can_do_depends_on_the_type(target: str, dtype: str, fast: float, impossible: float) -> None:
    program = parse(f"input A: {dtype}[4096, 4096]\ninput B: {dtype}[4096, 4096]\n"
                    "C[i: 4096, j: 4096] = sum[k: 4096](A[i, k] * B[k, j])\nreturn C\n")  # fmt: skip
    ceilings = default_ceilings(parse_target(target), 1)
    assert too_fast(program, 2 * 4096**3 / fast, ceilings) is None
    assert "ceiling" in str(too_fast(program, 2 * 4096**3 / impossible, ceilings))


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    limits = TimeLimits(verify=2.0)
    with LocalRunner("host", 1, builders=1, builder=HAND_BUILDER, timer=TRUSTING_TIMER, limits=limits) as one:
        yield one


def job(number: int, kind: str, purpose: Purpose = Purpose.SEARCH) -> Job:
    return Job(number, PROGRAM, "", {"kind": kind}, "host", 1, purpose)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("writes past the end", Status.CRASH),
        ("writes before the start", Status.CRASH),
        ("writes to its input", Status.CRASH),
        ("writes to null", Status.CRASH),
        ("hangs", Status.TIMEOUT),
        ("wrong", Status.WRONG_RESULT),
    ],
)
def test_a_bad_kernel_costs_itself_alone(runner: LocalRunner, kind: str, status: Status) -> None:
    for number, one in enumerate(("right", kind, "right")):
        runner.submit(job(number, one))
    done = gather(runner, 3)
    assert [done[n].status for n in range(3)] == [Status.OK, status, Status.OK]
    assert done[1].failure is not None and done[1].failure.stage == "verify"
    assert "OMP_WAIT_POLICY=passive" in done[0].device
    if status is Status.CRASH:
        assert "SIGSEGV" in done[1].failure.message or "SIGBUS" in done[1].failure.message


def test_a_confirmation_in_children(runner: LocalRunner) -> None:
    answers = runner.confirm([job(n, k, Purpose.CONFIRM) for n, k in enumerate(["right", "writes to null", "slow"])])
    statuses = [m.status for _, m in answers]
    assert statuses == [Status.OK, Status.CRASH, Status.OK]
    assert min(answers[0][1].times) < min(answers[2][1].times)
