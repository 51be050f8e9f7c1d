"""What a notebook shows of a program, a model, a kernel and a result: all of it escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np

import tilesmith
from helpers.command_line.at_once import AtOnce
from tilesmith.common.notebook import facts_html

PROGRAM = tilesmith.ops.matmul(m=12, n=12, k=12, constants=["B"])


class Seen(HTMLParser):
    """The tags that are open, and all words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.words = [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def words(shown: object) -> str:
    return Seen(shown._repr_html_()).words  # type: ignore[attr-defined]


def test_a_program_a_model_a_kernel_and_a_result(tmp_path: Path) -> None:
    model = tilesmith.Model(PROGRAM, {"B": np.ones((12, 12), np.float32)}, "<net>")
    assert "C[i: 12" in words(PROGRAM)
    assert "Model <net>" in words(model) and "1, 0.0 MB" in words(model)
    path = tmp_path / "a.sqlite"
    result = tilesmith.tune(PROGRAM, runner=AtOnce(), strategy="random", trials=3, threads=1, progress=False, db=path)
    assert "1 tuned" in words(result) and "1 ms" in words(result) and "matmul" in words(result)
    kernel = tilesmith.compile(model, db=tmp_path / "none.sqlite", threads=1)
    assert "analytic" in words(kernel) and "outline" in words(kernel) and "for " in words(kernel)


def test_nothing_that_is_shown_is_taken_for_html() -> None:
    shown = facts_html("<script>alert(1)</script>", {"<b>": "&"}, {"<i>": "</pre><script>"})
    assert "<script>" not in shown and "<b>&lt;script&gt;" in shown
