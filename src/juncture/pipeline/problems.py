"""Problems of a pipeline file, each with the line of its key."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from juncture.errors import JunctureError, SpecError

Path = tuple[str | int, ...]
"""Keys from the outermost table inwards, and indices of lists."""

_TOKEN = re.compile(
    r"""
    (?P<skip>[ \t\r]+|\#[^\n]*)
  | (?P<newline>\n)
  | (?P<text>\"{3}(?:[^\\]|\\.)*?\"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')
  | (?P<mark>[][{}=,.])
  | (?P<bare>[^][{}=,.\s"'\#]+)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass
class _PositionReader:
    """Reads the tokens of a file and collects the lines of keys."""

    tokens: list[tuple[str, str, int]]
    position: int = 0
    lines: dict[Path, int] = field(default_factory=dict)

    def peek(self, ahead: int = 0) -> str:
        position = self.position + ahead
        return self.tokens[position][1] if position < len(self.tokens) else ""

    def take(self) -> tuple[str, str, int]:
        self.position += 1
        return self.tokens[self.position - 1]

    def skip_newlines(self) -> None:
        while self.peek() == "\n":
            self.take()

    def key(self) -> tuple[list[str], int]:
        parts, line = list[str](), self.tokens[self.position][2]
        while True:
            kind, text, _ = self.take()
            parts.append(str(tomllib.loads(f"x = {text}")["x"]) if kind == "text" else text)
            if self.peek() != ".":
                return parts, line
            self.take()

    def pair(self, table: Path) -> None:
        parts, line = self.key()
        path = self.note(table, parts, line)
        self.take()
        self.value(path)

    def value(self, path: Path) -> None:
        mark = self.peek()
        if mark not in ("[", "{"):
            # A number or time may contain dots, which are tokens elsewhere.
            while self.peek() not in ("\n", ",", "]", "}", ""):
                self.take()
            return
        self.take()
        end, number = ("]", 0) if mark == "[" else ("}", 0)
        while True:
            self.skip_newlines()
            if self.peek() == ",":
                self.take()
            elif self.peek() == end:
                self.take()
                return
            elif mark == "[":
                self.lines[(*path, number)] = self.tokens[self.position][2]
                self.value((*path, number))
                number += 1
            else:
                self.pair(path)

    def note(self, table: Path, parts: list[str], line: int) -> Path:
        path = table
        for part in parts:
            path = (*path, part)
            self.lines.setdefault(path, line)
        return path


def lines_of(text: str) -> dict[Path, int]:
    """Return the line of each key of a valid TOML file, and of each item of a list."""
    reader = _PositionReader(list(_tokens(text.replace("\r\n", "\n"))))
    table: Path = ()
    counted: Counter[Path] = Counter()
    while reader.position < len(reader.tokens):
        reader.skip_newlines()
        if not reader.peek():
            break
        if reader.peek() != "[":
            reader.pair(table)
            continue
        depth = 2 if reader.peek(1) == "[" else 1
        reader.position += depth
        parts, line = reader.key()
        reader.position += depth
        table = _table(reader, parts, line, counted, is_list=depth == 2)
    return reader.lines


def _table(reader: _PositionReader, parts: list[str], line: int, counted: Counter[Path], *, is_list: bool) -> Path:
    """Return the path of the table that a header starts; within lists of tables, of the last one."""
    path: Path = ()
    for number, part in enumerate(parts):
        path = (*path, part)
        is_last = number == len(parts) - 1
        if not (is_last and is_list and counted[path]):
            reader.lines.setdefault(path, line)
        if is_last and is_list:
            counted[path] += 1
        if counted[path]:
            path = (*path, counted[path] - 1)
            reader.lines.setdefault(path, line)
    return path


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """Return the line of a key, or of the innermost table around it with a line."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    line = 1
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup or ""
        if kind != "skip":
            yield kind, token[0], line
        line += token[0].count("\n")


@dataclass(frozen=True, order=True)
class Problem:
    """A problem of a file. `where` is the dotted path of the key."""

    line: int
    where: str
    message: str


class PipelineError(SpecError):
    """A pipeline file has problems.

    The message lists all problems, one per line, as ``FILE:LINE: KEY: MESSAGE``.

    Attributes
    ----------
    file
        The path of the file.
    problems
        The problems in the order of lines, each with ``line``, ``where`` (the dotted path of the key) and ``message``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import juncture as jn
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "juncture.toml"
    >>> _ = file.write_text('sources.trades.pth = "trades.parquet"')
    >>> try:
    ...     jn.Pipeline.from_toml(file)
    ... except jn.PipelineError as error:
    ...     print([(each.line, each.where) for each in error.problems])
    [(1, 'sources.trades.pth')]
    """

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = sorted(set(problems))
        super().__init__("\n".join(self.lines()))
        # The name is not part of the message, so that every line starts with the file and editors can jump to it.
        self.name = "JN-PIPELINE-INVALID"

    def lines(self) -> list[str]:
        """Return one line per problem, in the form that editors jump to."""
        return [
            f"{self.file}:{each.line}: {each.where + ': ' if each.where else ''}{' '.join(each.message.split())}"
            for each in self.problems
        ]


@dataclass
class Problems:
    """Collects problems. `lines` has the line of each key."""

    lines: Mapping[Path, int] = field(default_factory=dict)
    entries: list[Problem] = field(default_factory=list)

    def add(self, path: Path, message: object) -> None:
        """Add a problem of a key. A key with one text in place of a list has no items."""
        while path and isinstance(path[-1], int) and path not in self.lines:
            path = path[:-1]
        self.entries.append(Problem(line_of(self.lines, path), dotted(path), str(message)))

    def add_named(self, path: Path, error: Exception, keys: Sequence[str]) -> None:
        """Add an error of a table, at the key that its message names first."""
        message = error.message if isinstance(error, JunctureError) else str(error)
        mentions = [(match.start(), key) for key in keys if (match := _mention(key).search(message))]
        self.add((*path, min(mentions)[1]) if mentions else path, error)


def dotted(path: Path) -> str:
    """Return a path as written in documentation, such as ``checks[1].unique``."""
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _mention(key: str) -> re.Pattern[str]:
    """Return a pattern for an argument in an error message: followed by its value, or at the start."""
    name = re.escape(key)
    return re.compile(rf"(?<![\w.]){name}(?==|\[)|^{name} |argument '{name}'")
