"""Collections are rare inside, and as before outside."""

import gc
from collections.abc import Iterator

import pytest

from tilesmith.common.garbage import RARELY, CollectedRarely


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_until_the_last_one_leaves() -> None:
    gc.set_threshold(600, 7, 8)
    rarely = CollectedRarely()
    with rarely:
        with rarely:
            assert gc.get_threshold() == (RARELY, 7, 8)
        assert gc.get_threshold() == (RARELY, 7, 8)
    assert gc.get_threshold() == (600, 7, 8)


def test_an_error_leaves_it_as_it_was() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="inside"), CollectedRarely():
        raise ValueError("inside")
    assert gc.get_threshold() == before


@pytest.mark.parametrize("youngest", [0, 2 * RARELY])
def test_who_wants_fewer_keeps_them(youngest: int) -> None:
    gc.set_threshold(youngest, 10, 10)
    with CollectedRarely():
        assert gc.get_threshold()[0] == youngest
