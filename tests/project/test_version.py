"""One version: what the package says, what is built, what the changelog calls it, and the tag of a release."""

from __future__ import annotations

import re
import subprocess
from itertools import pairwise

import pytest

import tilesmith
from helpers.source import PROJECT, ROOT

NEXT = "Unreleased"


def numbers(version: str) -> tuple[int, ...]:
    assert re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version), version
    return tuple(map(int, version.split(".")))


def check(headings: list[str], version: str) -> None:
    """Checks that the headings of a changelog, the newest first, are of releases before this version, or end with its own."""
    now = numbers(version)
    dated = [re.fullmatch(r"(\S+) \((\d{4}-\d\d-\d\d)\)", heading) for heading in headings if heading != NEXT]
    assert headings.count(NEXT) == (headings[0] == NEXT), "what is not released stands at the top"
    assert all(dated), f"a release has a date: {headings}"
    released = [numbers(found[1]) for found in dated if found]
    assert all(newer > older for newer, older in pairwise(released)), headings
    assert (not released or now > released[0]) if headings[0] == NEXT else now == released[0], (headings, version)


def test_the_changelog_and_the_version_agree() -> None:
    check(re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE), tilesmith.__version__)


@pytest.mark.parametrize(
    ("headings", "version"),
    [([NEXT, "0.1.0 (2026-01-02)"], "0.1.0"), (["0.1.0 (2026-01-02)"], "0.2.0"), (["0.1.0"], "0.1.0"),
     (["0.1.0 (2026-01-02)", NEXT], "0.1.0"), (["0.1.0 (2026-01-02)", "0.2.0 (2026-01-01)"], "0.1.0"), ([NEXT], "0.1")],
)  # fmt: skip
def test_what_disagrees_would_be_found(headings: list[str], version: str) -> None:
    with pytest.raises(AssertionError):
        check(headings, version)
    check([NEXT, "0.1.0 (2026-01-02)"], "0.1.1")
    check(["0.2.0 (2026-01-02)", "0.1.0 (2026-01-02)"], "0.2.0")


def test_what_is_built_has_the_version_of_the_package() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tilesmith.__version__"}


def test_a_tag_is_that_of_the_version() -> None:
    try:
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no repository")
    assert {tag for tag in listed.stdout.split() if tag.startswith("v")} <= {f"v{tilesmith.__version__}"}
