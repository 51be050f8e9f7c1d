"""Kernels for several threads in forked processes: each script runs in a process of its own, bounded in time."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

_HEAD = """
    import multiprocessing, os, signal, threading
    import numpy as np
    import tilesmith as ts

    program = ts.parse('''
        input a: f32[64, 4096]
        s[i: 64] = sum[j: 4096](a[i, j])
        t[i: 64, j: 4096] = a[i, j] + s[i]
        return t
    ''')
    kernel = ts.compile(program, threads=2)
    assert "GOMP_parallel" in kernel.artifact.runtime_symbols
    a = np.random.default_rng(0).random((64, 4096), np.float32)

    def right():
        return bool(np.allclose(kernel(a), a + a.sum(1, keepdims=True), rtol=1e-4))

    def in_child(work, seconds=20):
        child = os.fork()
        if child == 0:
            signal.alarm(seconds)
            os._exit(0 if work() else 1)
        return os.waitpid(child, 0)[1] == 0

    def team():  # threads of this process while a thread's team is there
        before = len(os.listdir("/proc/self/task"))
        found = []
        def call():
            right()
            found.append(len(os.listdir("/proc/self/task")) - before - 1)
        caller = threading.Thread(target=call)
        caller.start()
        caller.join()
        return found[0]
"""


def run(script: str, seconds: float = 60) -> None:
    whole = textwrap.dedent(_HEAD) + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr


def test_a_child_of_a_process_that_called_it() -> None:
    """Forks of forks too; the parent keeps its team."""
    run("""
        assert right()
        for _ in range(3):
            assert in_child(right)
            assert in_child(lambda: right() and in_child(lambda: right() and in_child(right)))
            assert right()
    """)


def test_threads_of_a_child_have_teams() -> None:
    run("""
        def everywhere():
            found = []
            callers = [threading.Thread(target=lambda: found.append(right())) for _ in range(4)]
            [caller.start() for caller in callers]
            found.append(right())
            [caller.join(20) for caller in callers]
            return found == [True] * 5

        right()
        assert in_child(everywhere)
        assert in_child(lambda: team() == 1)
        assert in_child(lambda: team() == 1 and in_child(lambda: right() and team() == 1))
    """)


def test_a_fork_by_another_thread() -> None:
    run("""
        right()
        found = []
        forker = threading.Thread(target=lambda: found.append(right() and in_child(right)))
        forker.start()
        forker.join(20)
        assert found == [True] and right()
    """)


def test_a_child_of_a_process_that_only_compiled_has_a_team() -> None:
    run("""
        def threads_of_main():
            before = len(os.listdir("/proc/self/task"))
            return right() and len(os.listdir("/proc/self/task")) == before + 1

        assert in_child(threads_of_main)
    """)


def test_pools_of_multiprocessing() -> None:
    run("""
        def work(number):
            return right()

        right()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map_async(work, range(6)).get(30) == [True] * 6
    """)


def test_the_cost_model_learns_in_a_child() -> None:
    run("""
        from tilesmith.cost_model.learned.boosting import XGBoost
        from tilesmith.tuner.effort import LEARNING

        def learns():
            rows = np.random.default_rng(0).random((60, 4), np.float32)
            model = XGBoost(LEARNING, 0).fit(rows, rows.sum(1))
            return float(np.abs(model.predict(rows) - rows.sum(1)).mean()) < 0.5

        assert right() and learns()
        assert in_child(learns) and in_child(lambda: in_child(learns))
    """)


def test_what_another_thread_was_doing_holds_up_nobody_in_a_child() -> None:
    """A property that it computes, a lock that it holds, and LLVM."""
    run("""
        import time
        import llvmlite.binding as llvm
        from tilesmith.common.cached import cached_property
        from tilesmith.common.forks import lock

        begun, go_on = threading.Event(), threading.Event()

        class Slow:
            def __init__(self, waits):
                self.waits = waits

            @cached_property
            def value(self):
                if self.waits:
                    begun.set()
                    go_on.wait(20)
                return 5

        mine, theirs = lock(), lock()
        compiler = llvm.ffi.lib._lock

        def other():
            with theirs:
                slow = Slow(True)
                found.append(slow.value)
            with compiler:
                begun.set()
                time.sleep(0.5)  # a call of LLVM, for whose end a fork waits

        def goes_on():
            with mine, theirs:
                return Slow(False).value == 5 and not COMPILES or ts.compile(program, threads=1)(a).shape == a.shape

        found, COMPILES = [], False
        thread = threading.Thread(target=other)
        thread.start()
        assert begun.wait(20)
        with mine:
            assert in_child(goes_on)
        begun.clear()
        go_on.set()
        assert begun.wait(20)
        COMPILES = True
        assert in_child(goes_on)
        thread.join(20)
        assert found == [5] and mine.acquire(blocking=False)
    """)


def test_settings_of_the_process_do_not_outlive_threads_that_a_fork_left_behind() -> None:
    run("""
        import gc
        from tilesmith.common.garbage import COLLECTED_RARELY

        before, begun, go_on = gc.get_threshold(), threading.Event(), threading.Event()

        def other():
            with COLLECTED_RARELY:
                begun.set()
                go_on.wait(20)

        def once_more():
            if gc.get_threshold() != before:
                return False
            with COLLECTED_RARELY:
                if gc.get_threshold() == before:
                    return False
            return gc.get_threshold() == before

        thread = threading.Thread(target=other)
        thread.start()
        assert begun.wait(20) and gc.get_threshold() != before
        assert in_child(once_more)
        with COLLECTED_RARELY:
            assert in_child(lambda: gc.get_threshold() != before)
        go_on.set()
        thread.join(20)
        assert gc.get_threshold() == before
    """)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tuning_and_calibrating_in_a_child(tmp_path_factory: pytest.TempPathFactory) -> None:
    """After the parent has tuned: learners have run there, and BLAS."""
    place = tmp_path_factory.mktemp("fork")
    run(
        f"""
        from tilesmith.measure.calibrate.calibrate import _in_child
        from tilesmith.targets.target import parse_target

        def tuned():
            found = ts.tune(ts.ops.matmul(m=64, n=64, k=64), trials=24, db="{place}/t.sqlite", threads=2)
            return len(found.records) >= 24 and ts.compile(program, threads=2) is not None

        assert right() and tuned()
        assert in_child(tuned, 100)
        assert in_child(lambda: _in_child(parse_target("host"), 2).flops["f32"] > 0, 100)
    """,
        250,
    )
