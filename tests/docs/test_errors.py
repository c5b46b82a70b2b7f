"""The catalogue of named errors, from which the site has a page for each."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import juncture as jn

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "docs" / "reference" / "errors").glob("*.toml"))


def named_errors() -> Iterator[tuple[str, str]]:
    """Yield the file and the name of each error that the code raises by a stable name."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for word in node.keywords if isinstance(node, ast.Call) else ():
                value = word.value.value if isinstance(word.value, ast.Constant) else None
                if word.arg == "name" and str(value).startswith("JN-"):
                    yield str(file.relative_to(ROOT)), value


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_entry_has_a_class_a_cause_and_a_remedy(file: Path) -> None:
    for name, entry in tomllib.loads(file.read_text(encoding="utf-8")).items():
        assert name.startswith("JN-"), name
        assert issubclass(getattr(jn, entry["error"]), jn.JunctureError), name
        assert entry["cause"].endswith("."), name
        assert entry["fix"].endswith("."), name
        assert entry.keys() <= {"error", "cause", "fix", "example"}, name
        ast.parse(entry.get("example", ""))


def test_a_name_occurs_once() -> None:
    names = Counter(name for file in FILES for name in tomllib.loads(file.read_text(encoding="utf-8")))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_name_that_the_code_raises_is_in_the_catalogue() -> None:
    names = {name for file in FILES for name in tomllib.loads(file.read_text(encoding="utf-8"))}
    assert [(file, name) for file, name in named_errors() if name not in names] == []
