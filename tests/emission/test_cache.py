"""Artifacts on disk: found again, and never trusted when damaged."""

from __future__ import annotations

import pickle
from hashlib import sha256
from pathlib import Path

import pytest

from tilesmith.codegen import cache
from tilesmith.codegen.artifact import Artifact, BufferSpec
from tilesmith.codegen.cache import ArtifactCache, artifact_key

SPEC = (BufferSpec("x", "f32", (2, 3)),)
ARTIFACT = Artifact(
    "a", "x86:avx2", 1, "object", b"code", "a", SPEC, (), SPEC, 0, 64, (), builder="1", texts={"llvm": "ret"}
)
KEY = artifact_key("p", "s", "c", "t", 1, "b")


def test_round_trip(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path / "new" / "folder")
    assert cache.get(KEY) is None
    cache.put(KEY, ARTIFACT)
    assert cache.get(KEY) == ARTIFACT
    assert [p.name for p in cache.path(KEY).parent.iterdir()] == [f"{KEY}.artifact"]


@pytest.mark.parametrize("change", range(6))
def test_key_depends_on_every_part(change: int) -> None:
    parts: list[object] = ["p", "s", "c", "t", 1, "b"]
    parts[change] = 2 if change == 4 else "other"
    assert artifact_key(*parts) != KEY  # type: ignore[arg-type]


def test_parts_do_not_run_together() -> None:
    assert artifact_key("ab", "c", "", "", 1, "") != artifact_key("a", "bc", "", "", 1, "")


def test_damage_is_a_miss(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    cache.put(KEY, ARTIFACT)
    whole = cache.path(KEY).read_bytes()
    other = pickle.dumps({"not": "an artifact"})
    for content in (b"", whole[:10], whole[:-1], whole[:40] + b"x" + whole[41:], sha256(other).digest() + other):
        cache.path(KEY).write_bytes(content)
        assert cache.get(KEY) is None
    cache.put(KEY, ARTIFACT)
    assert cache.get(KEY) == ARTIFACT


def test_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ArtifactCache(tmp_path / "file" / "below")
    cache.put(KEY, ARTIFACT)
    assert cache.get(KEY) is None


def test_key_depends_on_the_fields_of_artifacts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = artifact_key("p", "s", "c", "t", 1, "b")
    monkeypatch.setattr(cache, "_LAYOUT", cache._LAYOUT + " more")
    assert artifact_key("p", "s", "c", "t", 1, "b") != before, "an entry of another version must not be unpickled"
