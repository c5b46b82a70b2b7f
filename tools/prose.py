"""Check the prose of the project: no retired word in documentation, docstrings, comments or messages.

``python tools/prose.py [PATH ...]`` prints each finding as ``file:line: phrase``, and exits with 1 if there is one.
Code in Markdown is not prose, nor are names in Python.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

RETIRED = (
    "nobody",
    "whoever",
    "likewise",
    "nothing but",
    "of which",
    "so many",
    "ours",
    "theirs",
    "tells?",
    "told",
    "settle[sd]?",
    "asked for",
    "asks? for",
    "come by",
    "comes? of it",
    "held against",
    "holds? (it|them|one) against",
    "had (its|their) say",
    "what (has|have) no",
    "who wants",
    "as (they|it) lies?",
    "as (it|they) (is|are) said",
    "is said to",
    "said to be",
    "mend(s|ed)?",
    "foresaw",
)
"""Words and phrases for which the style has a plainer one, as regular expressions."""

_PHRASE = re.compile(rf"\b(?:{'|'.join(RETIRED)})\b", re.IGNORECASE)
_CODE = re.compile(r"`[^`]*`|\{[^{}]*\}")
_DEFAULT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "src", "benchmarks", "examples")


def lines_of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page that are no code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, _CODE.sub("", line)


def lines_of_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of comments, docstrings and other texts."""
    parts = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in parts:
            for offset, line in enumerate(token.string.splitlines()):
                if not line.lstrip().startswith((">>>", "... ")):
                    yield token.start[0] + offset, _CODE.sub("", line)


def findings(path: Path) -> Iterator[str]:
    """Yield what is found in a file."""
    text = path.read_text(encoding="utf-8")
    lines = lines_of_python(text) if path.suffix == ".py" else lines_of_markdown(text)
    for number, line in lines:
        for phrase in _PHRASE.finditer(line):
            yield f"{path}:{number}: {phrase[0]}"


def main(arguments: list[str]) -> int:
    """Check the files named, or all, and return the exit code."""
    roots = [Path(each) for each in arguments or _DEFAULT if Path(each).exists()]
    files = [file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("*")))]
    retired = [each for file in files if file.suffix in (".md", ".py") and file.is_file() for each in findings(file)]
    print(*retired, sep="\n" if retired else "")
    return 1 if retired else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
