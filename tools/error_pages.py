"""A hook of MkDocs: one page for each named error, from the catalogue in ``docs/reference/errors/*.toml``.

Each table of a catalogue has the name of an error and these keys: ``error`` (the class), ``cause``, ``fix`` and,
optionally, ``example``: the corrected Python code.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypedDict

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

FOLDER = "reference/errors"
INDEX = f"{FOLDER}/index.md"


class Entry(TypedDict, total=False):
    """The entry of an error in the catalogue."""

    error: str
    cause: str
    fix: str
    example: str


def catalogue(docs: Path) -> dict[str, Entry]:
    """Return all named errors, by name."""
    entries: dict[str, Entry] = {}
    for path in sorted((docs / FOLDER).glob("*.toml")):
        entries |= tomllib.loads(path.read_text(encoding="utf-8"))
    return dict(sorted(entries.items()))


def page(name: str, entry: Entry) -> str:
    """Return the page of an error as Markdown."""
    example = f"\n```python\n{entry['example'].strip()}\n```\n" if "example" in entry else ""
    cause, fix = entry["cause"].strip(), entry["fix"].strip()
    return f"# {name}\n\n`{entry['error']}`\n\n{cause}\n\n**What to do.** {fix}\n{example}"


def on_config(config: MkDocsConfig) -> None:
    """Add the pages to the menu, below the page of the classes."""
    names = catalogue(Path(config.docs_dir))
    pages: list[Any] = [INDEX, *({name: f"{FOLDER}/{name}.md"} for name in names)]
    _replace(config.nav, pages)


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages to the site, and remove the catalogue from it."""
    for each in [each for each in files if each.src_uri.startswith(FOLDER) and each.src_uri.endswith(".toml")]:
        files.remove(each)
    for name, entry in catalogue(Path(config.docs_dir)).items():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=page(name, entry)))


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Append a table of all named errors to the page of the classes."""
    if page.file.src_uri != INDEX:
        return markdown
    entries = catalogue(Path(config.docs_dir))
    rows = [f"| [{name}]({name}.md) | {' '.join(entry['cause'].split())} |" for name, entry in entries.items()]
    return "\n".join([markdown, "## Names", "", "| name | cause |", "| --- | --- |", *rows, ""])


def _replace(nav: Any, pages: list[Any]) -> None:
    """Give the entry of the index its pages."""
    for item in nav:
        for title, child in item.items() if isinstance(item, dict) else ():
            if child == INDEX:
                item[title] = pages
            elif isinstance(child, list):
                _replace(child, pages)
