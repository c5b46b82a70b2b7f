"""Check the prose and the names of the project.

``python tools/prose.py [PATH ...]`` prints each retired phrase in documentation, docstrings, comments or messages as
``file:line: phrase``, and each retired name in Python as ``file:line: name NAME``. Exits with 1 if there is one.
Code in Markdown is not checked, and names only in the folders that are free of retired ones.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

RETIRED = (
    # Subjects and clauses that take a second reading.
    "nobody",
    "whoever",
    "who wants",
    "what (has|have|had|wants?) no",
    "what (it|they) says? of",
    "likewise",
    "nothing but",
    "of which",
    "so many",
    "for ever",
    "lest",
    "whence",
    "the very (same|time|row|value|moment)",
    "as (they|it) lies?",
    "(it|they) lies? (in|on|at|there)",
    "as (it|they) (is|are) said",
    "to \\w+ it is nothing",
    "and no longer(?=[.;])",
    # Verbs that have a technical one: report, validate, return, keep, break ties, repair.
    "tells?",
    "told",
    "telling",
    "ask(s|ed|ing)? for",
    "settl(e|es|ed|ing)",
    "com(e|es|ing) by",
    "came (by|of)",
    "comes? of it",
    "h(old|olds|eld|olding) (\\w+ ){0,3}against",
    "had (its|their) say",
    "is said to",
    "said to be",
    "it is said",
    "mend(s|ed|ing)?",
    "foresaw",
    "made use of",
    "makes? nothing of",
    "dies in between",
    "takes? no part",
    "waits for itself",
    "a caller's word",
    # Left and right, build and probe have no owners.
    "ours",
    "theirs",
    "of (its|their|our) own accord",
)
"""Words and phrases for which the style has a plainer one, as regular expressions."""

_ROOT = Path(__file__).absolute().parent.parent

RETIRED_NAMES = frozenset(
    (
        *("asked", "came", "found", "given", "held", "kept", "known", "made"),
        *("own", "place", "places", "seen", "shown", "sought", "told", "whole"),
    )
)
"""Names that do not say what a value is, with or without underscores at their ends."""

_CHECKED_FOR_NAMES = tuple(
    f"{_ROOT}/src/juncture/{room}/"
    for room in (
        *("calibrate", "columnar", "datasets", "files", "incremental", "inputs", "joins", "kernels"),
        *("local", "matching", "ordered", "planner", "predicate", "runtime", "spark", "spec", "testing"),
    )
)
"""The folders whose names are checked."""

_PHRASE = re.compile(rf"\b(?:{'|'.join(RETIRED)})(?!\w)", re.IGNORECASE)
_CODE = re.compile(r"`[^`]*`|\{[^{}]*\}")
_WORD = re.compile(r"[rbfu]*([\"'])[\w:./-]*\1", re.IGNORECASE)
_NAMES = re.compile(r"\s*\w+(, \w+)*")
"""The line of a docstring that names arguments or attributes."""
_DEFAULT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "src", "benchmarks", "examples", "tools")
_OWN = Path(__file__).name


def lines_of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a page without code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, _CODE.sub("", line)


def lines_of_toml(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a catalogue of errors."""
    for number, line in enumerate(text.splitlines(), 1):
        yield number, _CODE.sub("", line)


def lines_of_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of comments, docstrings and messages. Strings of one word are keys, not prose."""
    parts = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in parts and not _WORD.fullmatch(token.string):
            for offset, line in enumerate(token.string.splitlines()):
                if not line.lstrip().startswith((">>>", "... ")) and not _NAMES.fullmatch(line):
                    yield token.start[0] + offset, _CODE.sub("", line)


def retired_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the retired names of a Python file with the numbers of their lines."""
    if path.suffix == ".py" and str(path.absolute()).startswith(_CHECKED_FOR_NAMES):
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
            if token.type == tokenize.NAME and token.string.strip("_") in RETIRED_NAMES:
                yield token.start[0], token.string


LINES = {".md": lines_of_markdown, ".py": lines_of_python, ".toml": lines_of_toml}


def findings(path: Path) -> Iterator[str]:
    """Yield the retired phrases and names of a file."""
    for number, line in LINES[path.suffix](path.read_text(encoding="utf-8")):
        for phrase in _PHRASE.finditer(line):
            yield f"{path}:{number}: {phrase[0]}"
    for number, name in retired_names(path):
        yield f"{path}:{number}: name {name}"


def main(arguments: list[str]) -> int:
    """Check the files named, or all, and return the exit code."""
    roots = [Path(each) for each in arguments or _DEFAULT if Path(each).exists()]
    files = [file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("*")))]
    checked = (file for file in files if file.suffix in LINES and file.is_file() and file.name != _OWN)
    retired = [each for file in checked for each in findings(file)]
    print(*retired, sep="\n" if retired else "")
    return 1 if retired else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
