"""What a stopwatch counts."""

import time

from tilesmith.tuner.stopwatch import Stopwatch


def test_pauses_do_not_count() -> None:
    watch = Stopwatch()
    with watch:
        with watch.paused():
            time.sleep(0.2)
        time.sleep(0.01)
    assert 0.01 <= watch.seconds < 0.15
