"""One thread inside, and as many as before outside."""

from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tilesmith.common.blas import OneThread


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def three() -> Iterator[None]:
    assert np.__version__  # which brings a BLAS
    with threadpool_limits(3, user_api="blas"):
        if threads() != {3}:
            pytest.skip("NumPy's BLAS is none whose threads can be told")
        yield


def test_one_thread_until_the_last_one_leaves() -> None:
    one = OneThread()
    with one:
        with one:
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {3}


def test_what_is_loaded_inside_is_limited_and_restored() -> None:
    one = OneThread()
    with one:
        threadpool_limits(4, user_api="blas")  # as a library that has just been loaded
        one.loaded()
        assert threads() == {1}
    assert threads() == {3}
    one.loaded()
    assert threads() == {3}


def test_an_error_leaves_it_as_it_was() -> None:
    with pytest.raises(ValueError, match="inside"), OneThread():
        raise ValueError("inside")
    assert threads() == {3}
