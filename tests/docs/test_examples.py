"""Examples of the documentation print what it shows, and its names and links exist."""

from __future__ import annotations

import ast
import doctest
import pkgutil
import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import juncture as jn

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PUBLIC_NAME = re.compile(r"\bjn\.([A-Za-z_]+)")
MENU_ENTRY = re.compile(r"- (.+): ([\w/-]+\.md)$", re.MULTILINE)
REFERENCE = ROOT / "docs" / "reference"


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


def installed_with(package: str, extras: frozenset[str] = frozenset(), known: set | None = None) -> set[str]:
    """Return the names of all packages that an installation of a package contains."""
    known = set() if known is None else known
    if (package, extras) not in known:
        known.add((package, extras))
        for text in requires(package) or ():
            each = Requirement(text)
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras or [""]):
                installed_with(canonicalize_name(each.name), frozenset(each.extras), known)
    return {name for name, _ in known}


def test_the_first_example_of_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example, output = re.search(r"^```python\n(.*?)^```\s+^```\n(.*?)^```", readme, re.MULTILINE | re.DOTALL).groups()
    imported = {match[1] for match in re.finditer(r"^import (\w+)", example, re.MULTILINE)}
    assert imported == {"pandas", "juncture"}
    (extra,) = re.search(r"pip install 'juncture\[(\w+)\]'", readme).groups()
    assert imported <= installed_with("juncture", frozenset([extra]))
    exec(example, {})
    assert capsys.readouterr().out == output


def test_the_readme_names_pages_that_exist() -> None:
    for file in ("README.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(((?:docs|CONTRIBUTING|LICENSE)[^)#]*)", (ROOT / file).read_text(encoding="utf-8")):
            assert (ROOT / link).exists(), link


def test_paths_for_contributors_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"`([\w.-]+/[\w./-]*)`", text):
        assert path == "dist/" or any((root / path).exists() for root in (ROOT, ROOT / "src" / "juncture")), path


@pytest.mark.parametrize(
    "page", [page for page in [*PAGES, ROOT / "README.md"] if code(page)], ids=lambda page: page.stem
)
def test_lines_to_copy_are_python_and_name_what_is_there(page: Path) -> None:
    for block in code(page):
        if not is_session(block):
            ast.parse(block)
    names = set(PUBLIC_NAME.findall(page.read_text(encoding="utf-8")))
    assert names <= set(jn.__all__)


def menu() -> list[tuple[str, str]]:
    """Return the title and the page of each entry of the site's menu."""
    return MENU_ENTRY.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def test_the_site_has_every_page() -> None:
    assert {page for _, page in menu()} == set(map(name, PAGES))


def test_no_title_occurs_twice() -> None:
    in_menu = [title for title, _ in menu()]
    on_pages = [page.read_text(encoding="utf-8").splitlines()[0] for page in PAGES]
    for titles in (in_menu, on_pages):
        assert [title for title in titles if titles.count(title) > 1] == []


@pytest.mark.parametrize(
    "page", [*sorted((REFERENCE / "api").glob("*.md")), REFERENCE / "errors" / "index.md"], ids=lambda page: page.stem
)
def test_the_reference_is_of_what_there_is(page: Path) -> None:
    described = re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert described
    for name in described:
        assert pkgutil.resolve_name(name).__doc__, name
