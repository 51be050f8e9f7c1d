"""What every acceptance sketch must do: trace, print, parse, outline, analyse 100,000 configs, and lower or say why not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

from helpers.lowering.truth import analysed, check_case
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.common.errors import ScheduleError
from tilesmith.schedules.outline import outline
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch, parse_sketch, valid
from tilesmith.schedules.space import config
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program

COUNT = 100_000
LARGE = parse_target("x86:avx512")
SMALL = parse_target("x86:avx512;vector=128")


class AcceptanceContract:
    """Subclasses give the template, a program of real size, small ragged ones, and the outlines of the default config."""

    template: Callable[[Schedule], None]
    large: Program
    small: Sequence[Program]
    titles: Sequence[str]
    outline: str  # of the first sketch, for the large program and the default config
    refusal: str = ""  # what the lowering says, where it cannot do it yet
    largest: int = 6000  # points of a small case

    @pytest.fixture
    def sketches(self) -> tuple[Sketch, ...]:
        return trace(type(self).template, self.large)

    def test_traces_prints_and_parses_back(self, sketches: tuple[Sketch, ...]) -> None:
        assert [sketch.title for sketch in sketches] == list(self.titles)
        for sketch in sketches:
            again = parse_sketch(sketch.text)
            assert again == sketch
            assert again.text == sketch.text
            assert again.key == sketch.key

    def test_one_sketch_serves_every_size(self, sketches: tuple[Sketch, ...]) -> None:
        for program in self.small:
            traced = trace(type(self).template, program)
            assert [sketch.key for sketch in traced] == [sketch.key for sketch in sketches]

    def test_outline(self, sketches: tuple[Sketch, ...]) -> None:
        sketch = sketches[0]
        config_space = sketch.config_space(self.large, LARGE)
        tree = sketch.apply(self.large, LARGE, config(config_space, config_space.default))
        assert outline(tree).splitlines() == self.outline.strip("\n").splitlines()

    def test_analyses_100_000_configs(self, sketches: tuple[Sketch, ...]) -> None:
        for sketch in sketches:
            config_space = sketch.config_space(self.large, LARGE)
            generator = np.random.default_rng(0)
            choices = np.stack(
                [generator.integers(0, len(p.values), COUNT, dtype=np.int32) for p in config_space.parameters], axis=1
            )
            start = time.process_time()
            tree = sketch.apply_population(self.large, LARGE, config_space, choices)
            good = valid(tree, COUNT)
            facts = analysed(tree)
            seconds = time.process_time() - start
            assert good.any()
            assert any(np.shape(value) == (COUNT,) for value in facts.values())
            assert seconds < 2
            row = int(np.flatnonzero(good)[0])
            alone = analysed(sketch.apply(self.large, LARGE, config(config_space, choices[row])))
            assert alone == {key: np.broadcast_to(value, (COUNT,))[row] for key, value in facts.items()}

    def test_lowers_to_what_the_oracle_says_or_is_refused(self, sketches: tuple[Sketch, ...]) -> None:
        if self.refusal:
            for sketch in sketches:
                self._check_refused(sketch)
            return
        for number, program in enumerate(self.small):
            for sketch in trace(type(self).template, program):
                random = Random(number)
                done = any(check_case(program, sketch, SMALL, random, self.largest) for _ in range(8))
                assert done, f"no valid config of {sketch.title} for {program}"

    def _check_refused(self, sketch: Sketch) -> None:
        config_space = sketch.config_space(self.large, LARGE)
        tree = sketch.apply(self.large, LARGE, config(config_space, config_space.default))
        with pytest.raises(ScheduleError, match=self.refusal) as caught:
            loop_ir(tree, LARGE)
        assert caught.value.expected
        assert "<-- here" in caught.value.where
