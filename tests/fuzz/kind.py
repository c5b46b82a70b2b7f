"""What the runner needs of a kind of case: how one is drawn, judged, made smaller, counted and printed."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from juncture.errors import JunctureError
from juncture.planner.decision import Engine

__all__ = ["RIGHT", "Facts", "Kind", "Outcome", "outcome_of", "template"]

Case = Any
"""A frozen value with all that a case is made of."""

Facts = dict[str, list[str]]
"""What there is to count of a case, by what it is about."""


@dataclass(frozen=True)
class Outcome:
    """The result of a case.

    Attributes
    ----------
    status
        Whether the rows are right, or an error of the library refused the case, or neither.
    signature
        What cases have in common that fail, or are refused, for the same reason.
    detail
        What is wrong.
    facts
        What the judge counted.
    """

    status: Literal["right", "refused", "failed"]
    signature: str = ""
    detail: str = ""
    facts: Facts | None = None


RIGHT = Outcome("right")


@dataclass(frozen=True)
class Kind:
    """A kind of case.

    Attributes
    ----------
    draw
        Returns the case of a seed and a number on an engine.
    judge
        Returns a function that runs a case in an empty folder and compares the answer. It is called once for each
        process, with the engine.
    smaller
        Yields cases that are a little smaller, those first that are smaller by much.
    script
        Returns a case, with the outcome if there is one, as a script that fails as the case does.
    label
        Names the part of the library that a case runs.
    facts
        Returns what there is to count of a case that was not refused.
    engines
        Where the cases can run.
    """

    draw: Callable[[int, int, Engine], Case]
    judge: Callable[[Engine], Callable[[Case, Path], Outcome]]
    smaller: Callable[[Case], Iterator[Case]]
    script: Callable[[Case, Outcome | None], str]
    label: Callable[[Case], str]
    facts: Callable[[Case], Facts]
    engines: tuple[Engine, ...] = ("local",)


def outcome_of(error: BaseException, variable: tuple[str, ...] = ()) -> Outcome:
    """Return the outcome of a case that raised an error: errors of the library refuse, and others fail.

    ``variable`` are patterns of what differs between messages of one reason.
    """
    if isinstance(error, JunctureError):
        message = str(error)
        for pattern in variable:
            message = re.sub(pattern, pattern.replace(".*", "…"), message)
        return Outcome("refused", f"{type(error).__name__}: {template(message)}", str(error))
    # The place in the library where the error was raised, which cases of one cause share.
    places = [
        f"{frame.filename.partition('/src/')[2]}:{frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/src/juncture/" in frame.filename
    ]
    detail = "".join(traceback.format_exception(error))
    return Outcome("failed", f"{type(error).__name__} in {(places or ['the test'])[-1]}", detail)


def template(message: str) -> str:
    """Return the first sentence of a message, without names, types and numbers."""
    message = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", message)
    message = re.sub(r"\b(is|of type) [a-z_]+\d*(<.*>|\[[^\]]*\]|\([^)]*\))*", r"\1 …", message)
    return re.sub(r"\d+", "0", re.split(r"[.:] ", message)[0])[:120]
