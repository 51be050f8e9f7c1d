"""A model runs inside one team of threads, whoever calls it, however many threads its kernels are for."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilesmith as ts
from helpers.graph.chain import PICKED, A, W, expected, model
from tilesmith.runtime.devices.cpu.model_team import TEAM
from tilesmith.runtime.kernel import Kernel


def test_the_team_is_asked_for_where_kernels_have_parallel_regions() -> None:
    assert model(2).runtime_symbols == (TEAM,) and model(1).runtime_symbols == ()
    assert any("GOMP_parallel" in one.runtime_symbols for one in model(2).kernels)
    assert any("GOMP_parallel" not in one.runtime_symbols for one in model(2).kernels)


@pytest.mark.parametrize("threads", [(1,), (2,), (3,), (2, 3), (1, 2, 3)])
def test_kernels_for_several_numbers_of_threads(threads: tuple[int, ...]) -> None:
    kernel = Kernel(model(*threads), [W])
    assert all(np.allclose(kernel(A), expected(A), rtol=1e-3, atol=1e-4) for _ in range(50))
    assert len(kernel.call_seconds(A)) == 37


def test_several_threads_each_have_a_team() -> None:
    """Also beside kernels that fork teams themselves."""
    kernel, alone = Kernel(model(2), [W]), Kernel(PICKED[2](ts.ops.matmul(m=96, n=96, k=96)))
    wanted = expected(A)

    def right(number: int) -> bool:
        if number % 2:
            return all(np.allclose(alone(A, W), A @ W, rtol=1e-4) for _ in range(100))
        return all(np.allclose(kernel(A), wanted, rtol=1e-3, atol=1e-4) for _ in range(30))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(right, range(16)))


def test_a_child_that_was_forked() -> None:
    """The thread that forked has no team any more, and runs the model by itself."""
    script = """
        import os, signal, sys
        sys.path.insert(0, "tests")
        import numpy as np
        from helpers.graph.chain import A, W, expected, model
        from tilesmith.runtime.kernel import Kernel


        kernel = Kernel(model(2), [W])
        assert np.allclose(kernel(A), expected(A), rtol=1e-3, atol=1e-4)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if np.allclose(kernel(A), expected(A), rtol=1e-3, atol=1e-4) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert np.allclose(kernel(A), expected(A), rtol=1e-3, atol=1e-4)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
