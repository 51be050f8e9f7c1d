"""Artifacts on disk: found again, and never trusted when damaged."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tilesmith.codegen import cache
from tilesmith.codegen.artifact import Artifact, BufferSpec, Launch
from tilesmith.codegen.cache import ArtifactCache, artifact_key
from tilesmith.codegen.emulator.layout import STRUCTS
from tilesmith.codegen.rows import PitchedRows
from tilesmith.codegen.stored import from_bytes, to_bytes
from tilesmith.common import private

SPEC = (BufferSpec("x", "f32", (2, 3)), BufferSpec("y", "f32", (2, 3), PitchedRows(3, 8)))
ARTIFACT = Artifact(
    "a", "x86:avx2", 1, "object", b"code", "a", SPEC, (), SPEC, 0, 64, (), builder="1", texts={"llvm": "ret"}
)
KEY = artifact_key("p", "s", "c", "t", 1, (), "b")


def test_round_trip(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path / "new" / "folder")
    assert cache.get(KEY) is None
    cache.put(KEY, ARTIFACT)
    assert cache.get(KEY) == ARTIFACT
    assert [p.name for p in cache.path(KEY).parent.iterdir()] == [f"{KEY}.artifact"]


@pytest.mark.parametrize("change", range(7))
def test_key_depends_on_every_part(change: int) -> None:
    parts: list[object] = ["p", "s", "c", "t", 1, (), "b"]
    parts[change] = {4: 2, 5: (PitchedRows(4, 8),)}.get(change, "other")
    assert artifact_key(*parts) != KEY  # type: ignore[arg-type]


def test_parts_do_not_run_together() -> None:
    assert artifact_key("ab", "c", "", "", 1, (), "") != artifact_key("a", "bc", "", "", 1, (), "")


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


def test_key_depends_on_the_code_that_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def other(*packages: str) -> str:
        asked.extend(packages)
        return "edited"

    monkeypatch.setattr(cache, "code_state", other)
    assert artifact_key("p", "s", "c", "t", 1, (), "b") != KEY, "what older code compiled is not found"
    assert {"codegen", "schedules", "tensor", "targets"} == set(asked)


def test_key_depends_on_the_fields_of_artifacts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = artifact_key("p", "s", "c", "t", 1, (), "b")
    monkeypatch.setattr(cache, "_LAYOUT", cache._LAYOUT + " more")
    assert artifact_key("p", "s", "c", "t", 1, (), "b") != before, "an entry of another version is not read"


def test_key_depends_on_what_emulated_kernels_share_with_the_emulator() -> None:
    assert str(STRUCTS) in cache._LAYOUT, "an object of other structs would read and write beside the fields"


FULL = replace(
    ARTIFACT,
    code=bytes(range(256)),
    parts=(b"", b"\n{}"),
    launches=(Launch("s", (1, 2), (32,), 48),),
    seconds={"emit": 0.25},
)


def test_every_field_is_stored_as_plain_data() -> None:
    assert from_bytes(to_bytes(FULL)) == FULL
    assert FULL.code in to_bytes(FULL), "objects stand as they are"


def test_nothing_of_an_entry_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle, "loads", lambda *_: pytest.fail("unpickled"))
    cache = ArtifactCache(tmp_path)
    cache.put(KEY, FULL)
    assert cache.get(KEY) == FULL


def test_an_entry_of_another_key_is_a_miss(tmp_path: Path) -> None:
    cache, other = ArtifactCache(tmp_path), artifact_key("q", "s", "c", "t", 1, (), "b")
    cache.put(KEY, ARTIFACT)
    cache.put(other, ARTIFACT)
    cache.path(KEY).replace(cache.path(other))
    assert cache.get(other) is None


def _mutated(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0x15]) + content[place + 1 :]


def test_a_header_with_anything_else_in_it_is_refused_and_not_understood() -> None:
    whole = to_bytes(FULL)
    for place in range(whole.index(b"\n")):
        with suppress(ValueError, KeyError, TypeError):
            assert isinstance(from_bytes(_mutated(whole, place)), Artifact)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_what_others_may_write_is_ignored_with_one_warning(tmp_path: Path, mode: int) -> None:
    private._warn.cache_clear()
    cache = ArtifactCache(tmp_path)
    cache.put(KEY, ARTIFACT)
    cache.path(KEY).chmod(mode)
    with pytest.warns(UserWarning, match="others may write") as told:
        assert cache.get(KEY) is None and cache.get(KEY) is None
    assert len(told) == 1
    cache.put(KEY, ARTIFACT)
    assert cache.get(KEY) == ARTIFACT, "it is made again"


def test_what_another_user_owns_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private._warn.cache_clear()
    cache = ArtifactCache(tmp_path)
    cache.put(KEY, ARTIFACT)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(UserWarning, match="another user"):
        assert cache.get(KEY) is None


def test_no_file_but_a_plain_one_is_read(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    cache.put(KEY, ARTIFACT)
    cache.path(KEY).unlink()
    os.mkfifo(cache.path(KEY), 0o600)
    assert cache.get(KEY) is None


def test_folders_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        cache = ArtifactCache(tmp_path / "a" / "b")
        cache.put(KEY, ARTIFACT)
    finally:
        os.umask(before)
    folders = [tmp_path / "a", tmp_path / "a" / "b", cache.path(KEY).parent]
    assert [place.stat().st_mode & 0o777 for place in folders] == [0o700] * 3
    assert cache.path(KEY).stat().st_mode & 0o777 == 0o600
