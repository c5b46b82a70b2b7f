"""What is wrong with a pipeline's file: each problem with its line, what was expected, and how to mend it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from juncture.errors import SpecError
from juncture.pipeline.positions import Path, line_of


@dataclass(frozen=True, order=True)
class Problem:
    """Something that is wrong with a file.

    Attributes
    ----------
    line
        Where it is.
    where
        The key, from the outermost table inwards.
    message
        What is wrong, and how to mend it.
    """

    line: int
    where: str
    message: str


class PipelineError(SpecError):
    """A pipeline's file has problems.

    Attributes
    ----------
    file
        The name of the file.
    problems
        All of them, in the order of the lines.
    """

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = sorted(set(problems))
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return one line for each problem, in the form that editors jump to."""
        return [
            f"{self.file}:{each.line}: {each.where + ': ' if each.where else ''}{' '.join(each.message.split())}"
            for each in self.problems
        ]


@dataclass
class Problems:
    """Problems as they are found.

    Attributes
    ----------
    lines
        The line of each key.
    found
        What has been found.
    """

    lines: Mapping[Path, int] = field(default_factory=dict)
    found: list[Problem] = field(default_factory=list)

    def add(self, path: Path, message: object) -> None:
        """Note a problem of a key."""
        self.found.append(Problem(line_of(self.lines, path), dotted(path), str(message)))

    def add_named(self, path: Path, error: Exception, keys: Sequence[str]) -> None:
        """Note what is wrong with a table, at the key of it that an error's message names first."""
        message = str(error)
        places = [(found.start(), key) for key in keys if (found := _mention(key).search(message))]
        self.add((*path, min(places)[1]) if places else path, message)


def dotted(path: Path) -> str:
    """Return a path as users write it.

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
    """Return what finds an argument where a message of ours names it: by its value, or at the beginning."""
    name = re.escape(key)
    return re.compile(rf"(?<![\w.]){name}(?==|\[)|^{name} |argument '{name}'")
