"""What the documentation shows is what happens, and what it names is there."""

from __future__ import annotations

import ast
import doctest
import pkgutil
import re
from pathlib import Path

import pytest

import juncture as jn

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PUBLIC_NAME = re.compile(r"\bjn\.([A-Za-z_]+)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT / "docs"))


def code(page: Path) -> list[str]:
    return CODE.findall(page.read_text(encoding="utf-8"))


def is_session(block: str) -> bool:
    """Return whether a block is a session with its answers, rather than lines to copy."""
    return block.startswith(">>> ")


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(is_session, code(page)))], ids=name)
def test_examples_give_what_the_page_says(page: Path) -> None:
    examples = "\n".join(block for block in code(page) if is_session(block))
    test = doctest.DocTestParser().get_doctest(examples, {}, page.name, str(page), 0)
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize(
    "page", [page for page in [*PAGES, ROOT / "README.md"] if code(page)], ids=lambda page: page.stem
)
def test_lines_to_copy_are_python_and_name_what_is_there(page: Path) -> None:
    for block in code(page):
        if not is_session(block):
            ast.parse(block)
    names = set(PUBLIC_NAME.findall(page.read_text(encoding="utf-8")))
    assert names <= set(jn.__all__)


def test_the_site_has_every_page() -> None:
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == set(map(name, PAGES))


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "api").glob("*.md")), ids=lambda page: page.stem)
def test_the_reference_is_of_what_there_is(page: Path) -> None:
    described = re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert described
    for name in described:
        assert pkgutil.resolve_name(name).__doc__, name
