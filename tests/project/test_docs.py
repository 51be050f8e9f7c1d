"""What the documents say is so: programs parse, code is that of the examples, links lead somewhere."""

import re
from pathlib import Path

import pytest

import tilesmith
from helpers.source import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


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
    for link in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (path.parent / link).exists(), link


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
