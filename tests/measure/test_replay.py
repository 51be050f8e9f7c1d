"""The replay space and runner against the tables they were made from."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from contracts.runner import RunnerContract
from tilesmith.common.errors import ArgumentError
from tilesmith.measure.replay import ReplayRunner, ReplaySpace, load_table
from tilesmith.measure.result import Job, Purpose, Status
from tilesmith.schedules.space import Population, config

DATA = Path(__file__).parents[1] / "data" / "replay"
A100 = DATA / "convolution-A100.json.gz"
W6600 = DATA / "convolution-W6600.json.gz"


def raw(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))


def job(number: int, values: dict, purpose: Purpose = Purpose.SEARCH) -> Job:
    return Job(number, "", "", values, "", 1, purpose)


class TestReplayRunner(RunnerContract):
    @pytest.fixture
    def runner(self) -> ReplayRunner:
        return ReplayRunner(A100)

    def good_job(self, number: int, purpose: Purpose = Purpose.SEARCH) -> Job:
        data = raw(A100)
        return job(number, dict(zip(data["columns"], data["configs"][0], strict=True)), purpose)

    def bad_job(self, number: int) -> Job:
        data = raw(A100)
        row = data["status"].index("RuntimeFailedConfig")
        return job(number, dict(zip(data["columns"], data["configs"][row], strict=True)))


@pytest.mark.parametrize("path", [A100, W6600])
def test_every_row_is_answered_as_recorded(path: Path) -> None:
    data, runner = raw(path), ReplayRunner(path)
    for number, row in enumerate(data["configs"]):
        runner.submit(job(number, dict(zip(data["columns"], row, strict=True))))
    answers = dict(runner.collect())
    for number, (ms, status) in enumerate(zip(data["ms"], data["status"], strict=True)):
        if status == "ok":
            assert answers[number].times == (ms * 1e-3,)
        else:
            assert answers[number].status in (Status.CRASH, Status.COMPILE_ERROR)
            assert status in answers[number].failure.message


def test_valid_is_membership_in_the_table() -> None:
    data, space = raw(A100), ReplaySpace(A100)
    (config_space,) = space.config_spaces
    recorded = {tuple(row) for row in data["configs"]}
    counts = [len(p.values) for p in config_space.parameters]
    everything = np.stack(np.unravel_index(np.arange(config_space.size), counts), axis=1).astype(np.int32)
    valid = space.valid(Population(0, everything))
    assert valid.sum() == len(recorded) < config_space.size
    for choices, ok in zip(everything, valid, strict=True):
        assert (tuple(config(config_space, choices).values()) in recorded) == ok


def test_the_default_is_a_configuration_that_exists() -> None:
    space = ReplaySpace(W6600)
    default = np.array([space.config_spaces[0].default], dtype=np.int32)
    assert space.valid(Population(0, default)).all()


def test_features_are_the_raw_values_and_there_is_no_prior() -> None:
    space = ReplaySpace(A100)
    population = Population(0, space.table.choices[:50])
    rows = [list(config(space.config_spaces[0], c).values()) for c in population.choices]
    assert np.array_equal(space.features(population), np.array(rows, dtype=np.float32))
    assert space.prior(population) is None


def test_what_the_table_lacks_is_invalid() -> None:
    runner = ReplayRunner(A100)
    values = config(ReplaySpace(A100).config_spaces[0], [0] * 10)
    runner.submit(job(0, {**values, "block_size_x": 17}))
    runner.submit(job(1, {}))
    assert [m.status for _, m in runner.collect()] == [Status.INVALID, Status.INVALID]


def test_the_key_depends_on_the_space() -> None:
    one, again, other = (ReplaySpace(table).config_spaces[0].key for table in (A100, A100, W6600))
    assert one == again != other


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(b"{", mtime=0), gzip.compress(b"[]", mtime=0), gzip.compress(b"{}", mtime=0)]
)
def test_a_file_that_is_no_table(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.json.gz"
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match="is no replay table"):
        load_table(path)
    with pytest.raises(ArgumentError):
        load_table(tmp_path / "missing.gz")


def test_options_become_positions(tmp_path: Path) -> None:
    table = {
        "name": "t",
        "device": "d",
        "parameters": {"a": ["x", "y"], "b": [4, 8]},
        "columns": ["a", "b"],
        "configs": [["y", 4], ["x", 8]],
        "ms": [1.0, None],
        "status": ["ok", "Strange"],
    }
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(json.dumps(table).encode()))
    space = ReplaySpace(path)
    assert space.features(Population(0, space.table.choices)).tolist() == [[1, 4], [0, 8]]
    assert not space.config_spaces[0].parameters[0].ordered and space.config_spaces[0].parameters[1].ordered
    runner = ReplayRunner(space.table)
    runner.submit(job(0, {"a": "x", "b": 8}))
    assert runner.collect()[0][1].status is Status.CRASH
