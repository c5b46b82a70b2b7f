"""Problems of a pipeline file, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from juncture.errors import JunctureError, SpecError
from juncture.pipeline.positions import Path, line_of


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
    found: list[Problem] = field(default_factory=list)

    def add(self, path: Path, message: object) -> None:
        """Add a problem of a key."""
        self.found.append(Problem(line_of(self.lines, path), dotted(path), str(message)))

    def add_named(self, path: Path, error: Exception, keys: Sequence[str]) -> None:
        """Add an error of a table, at the key that its message names first."""
        message = error.message if isinstance(error, JunctureError) else str(error)
        places = [(match.start(), key) for key in keys if (match := _mention(key).search(message))]
        self.add((*path, min(places)[1]) if places else path, error)


def dotted(path: Path) -> str:
    """Return a path as written in documentation.

    Examples
    --------
    >>> dotted(("checks", 0, "unique"))
    'checks[1].unique'
    """
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _mention(key: str) -> re.Pattern[str]:
    """Return a pattern for an argument in an error message: followed by its value, or at the start."""
    name = re.escape(key)
    return re.compile(rf"(?<![\w.]){name}(?==|\[)|^{name} |argument '{name}'")
