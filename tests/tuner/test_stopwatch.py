"""What a stopwatch counts."""

import time

from tilesmith.tuner.stopwatch import Stopwatch


def test_only_what_is_inside_counts_and_all_of_it() -> None:
    watch = Stopwatch()
    for _ in range(2):
        with watch:
            time.sleep(0.05)
        time.sleep(0.2)
    assert 0.1 <= watch.seconds < 0.25
