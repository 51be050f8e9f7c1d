"""A timer whose device is broken as long as a file is there, which it takes away when it says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tilesmith.common.errors import DeviceLost
from tilesmith.measure.timing.timer import Timer


class LostOnce(Timer):
    def _check(self, *given: Any) -> Any:
        mark = Path(os.environ["LOST_ONCE"])
        if mark.exists():
            mark.unlink()
            raise DeviceLost("cuda:0 was broken before loading")
        return super()._check(*given)
