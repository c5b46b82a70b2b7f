"""Lines of keys: every key of a file has one, and it is the one on which it stands."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from juncture.pipeline.problems import dotted, lines_of

TEXT = '''# [comment]
top = "a # b = [c]"
[a.b]
"quoted key" = """
[not.a.table]
x = 1""""
'literal' = \'\'\'
y = "2"
\'\'\'
list = [ # one
  "x", { k = 1, l.m = [2, 3] },
  """y
""",
]
when = 2026-01-01T10:00:00.5Z
number = -1.5e3

[[rows]]
n = 1
[[rows.inner]]
m = "\\" ]"
[[rows.inner]]
m = 2
[[rows]]
n.o = 3
'''
EXPECTED = {
    ("top",): 2,
    ("a", "b"): 3,
    ("a", "b", "quoted key"): 4,
    ("a", "b", "literal"): 7,
    ("a", "b", "list", 1, "l", "m", 1): 11,
    ("a", "b", "list", 2): 12,
    ("a", "b", "number"): 16,
    ("rows", 0, "n"): 19,
    ("rows", 0, "inner", 0, "m"): 21,
    ("rows", 0, "inner", 1, "m"): 23,
    ("rows", 1, "n", "o"): 25,
}


def paths(value: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path}.union(*(paths(each, (*path, key)) for key, each in inner)) - {()}


def test_each_key_has_its_line():
    found = lines_of(TEXT)
    assert {path: found[path] for path in EXPECTED} == EXPECTED


FILES = [file for file in (Path(__file__).parent / "bad").glob("*.toml") if file.stem not in ("no_toml", "step_twice")]


@pytest.mark.parametrize("text", [TEXT, *(file.read_text() for file in FILES)], ids=["text", *(f.stem for f in FILES)])
def test_all_keys_are_found(text):
    assert set(lines_of(text)) == paths(tomllib.loads(text))


def test_places_are_named_as_in_the_documentation():
    assert dotted(("checks", 0, "unique")) == "checks[1].unique"
