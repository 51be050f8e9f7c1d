"""What the documents say is so: programs parse, code is that of the examples, links lead somewhere."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilesmith
from helpers.source import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MADE = {"reference/command-line.md"}  # pages of the site that docs/site_pages.py writes


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.S | re.M)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_programs_in_documents_parse(path: Path) -> None:
    for text in blocks(path, "tensor"):
        program = tilesmith.parse(text)
        assert tilesmith.parse(str(program)) == program


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(path: Path) -> None:
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(), flags=re.S | re.M)
    for link, anchor in re.findall(r"\]\(([^)#:]*)(#[^)]*)?\)", prose):
        there = path.parent / link if link else path
        assert there.exists(), link
        assert not anchor or anchor[1:] in anchors(there), f"{link}{anchor}"


def anchors(path: Path) -> set[str]:
    """Names of the headings of a page, as links say them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_the_site_has_a_place_for_each_page() -> None:
    """What `make docs` is strict about, without building it."""
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"([\w./-]+\.md)$", text, re.M)
    there = {str(path.relative_to(ROOT / "docs")) for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")}
    above = {path.name for path in DOCUMENTS if path.parent == ROOT}
    assert len(set(listed)) == len(listed) and set(listed) == there | above | MADE


def test_links_are_turned_to_where_the_site_has_what_they_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(ROOT / "docs")
    turned = importlib.import_module("site_pages").turned
    known = {"search.md", "README.md", "ARCHITECTURE.md", "tutorial/index.md", "examples/demo.py"}
    for place, link, found in (
        ("docs/search.md", "[a](../ARCHITECTURE.md#x)", "[a](ARCHITECTURE.md#x)"),
        ("README.md", "[a](docs/search.md)", "[a](search.md)"),
        ("README.md", "[b](examples)", "b"),
        (
            "docs/tutorial/index.md",
            "[c](../search.md) [d](../../examples/demo.py)",
            "[c](../search.md) [d](../examples/demo.py)",
        ),
        ("docs/search.md", "[e](nowhere.md) `[f](../README.md)`", "[e](nowhere.md) `[f](../README.md)`"),
    ):
        assert turned(link, place, known) == found


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    settings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # of what comes after MkDocs 1
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    for page, words in (("reference/searching.html", "TuneResult"), ("tutorial/index.html", "A first kernel")):
        assert words in (tmp_path / "site" / page).read_text()


def test_the_code_in_the_page_on_templates_is_in_the_examples() -> None:
    examples = [(ROOT / "examples" / name).read_text() for name in ("own_template.py", "blur_template.py")]
    code = "\n".join(line for example in examples for line in example.splitlines() if '"""' not in line)
    shown = blocks(ROOT / "docs" / "templates.md", "python")
    assert len(shown) == 3
    assert all(block.strip() in code for block in shown)


def test_the_program_in_the_readme_is_one_and_its_calls_exist() -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    text = re.search(r'parse\("""(.*?)"""\)', code, re.S)
    assert text is not None
    assert [tensor.name for tensor in tilesmith.parse(text[1]).dynamic_inputs] == ["A", "B", "bias"]
    assert set(re.findall(r"tilesmith\.(\w+)\(", code)) <= set(tilesmith.__all__)


def test_the_steps_in_the_page_on_templates_are_those_of_a_schedule() -> None:
    from tilesmith.schedules.schedule import Schedule

    page = (ROOT / "docs" / "templates.md").read_text()
    named = set(re.findall(r"`s\.(\w+)", page))
    assert named <= set(dir(Schedule)), named - set(dir(Schedule))


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.tensor")), ids=lambda path: path.name)
def test_program_files_among_the_examples_parse(path: Path) -> None:
    tilesmith.parse(path.read_text())


def test_files_that_the_glossary_names_exist() -> None:
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", (ROOT / "docs" / "glossary.md").read_text())
    assert len(named) > 20
    assert not [path for path in named if not (ROOT / path).exists()]
