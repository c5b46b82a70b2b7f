"""What can go wrong, as a tree of exceptions.

::

    JunctureError
    ├── SpecError     an argument has a wrong value, or arguments exclude each other
    ├── SchemaError   the arguments do not fit the tables: a missing column, types that do not compare
    ├── PlanError     the join is valid but cannot run this way: an unsuitable algorithm, engine or input
    ├── DataError     the rows are invalid: a damaged file, a tie with ties='error'
    └── StateError    state or spilled rows cannot be read or written: a full disk, a lost slot

Each message names the argument, column or file with its type, says what was expected, and what to do.
``SpecError`` and ``SchemaError`` are also ``ValueError``, so that code written for pandas or Polars keeps working.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Self, TypeVar

AnyError = TypeVar("AnyError", bound="JunctureError")

_CARRIED = re.compile(
    r"juncture\.errors\.(?P<kind>\w+): (?:\[(?P<name>JN-[A-Z0-9-]+)\] )?"
    r"(?P<message>.+?)(?:\s+SQLSTATE: \w{5}\b|\n\s*\n|\n'|\n\s+at |', from|\Z)",
    re.DOTALL,
)
"""An error in the text of one of Spark's, which goes on in one of several ways."""
_EXTRAS = {
    "altair": "html",
    "deltalake": "lake",
    "duckdb": "sql",
    "psycopg": "postgres",
    "py4j": "spark",
    "pydantic": "cli",
    "pyiceberg": "lake",
    "pyspark": "spark",
    "rich": "cli",
    "rocksdict": "changes",
    "sqlglot": "sql",
    "typer": "cli",
    "vl_convert": "html",
}
"""The extra of this package that installs each optional package, by the name that is imported."""
_SCREEN_LINES = 20
_SCREEN_CHARACTERS = 1_600


class JunctureError(Exception):
    """Any error that Juncture raises on purpose. Its message fits on a screen: a longer one loses its middle.

    Attributes
    ----------
    name
        The stable name of the mistake, such as ``JN-TOLERANCE-TYPE``, for programs and for the reference, which has a
        page for each.
    message
        What is wrong, what was expected, and what to do.

    Examples
    --------
    >>> error = SpecError("how='outer' is unknown. Did you mean 'full'?", name="JN-ARGUMENT-VALUE")
    >>> error
    SpecError("[JN-ARGUMENT-VALUE] how='outer' is unknown. Did you mean 'full'?")
    >>> error.within("In table 'weather'").message
    "In table 'weather': how='outer' is unknown. Did you mean 'full'?"
    """

    def __init__(self, message: object = "", *, name: str = "") -> None:
        self.name = name
        self.message = _on_a_screen(str(message))
        super().__init__(f"[{name}] {self.message}" if name else self.message)

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[type[Self], str, str]]:
        return _rebuild, (type(self), self.message, self.name)

    def within(self, context: str) -> Self:
        """Return the same error with the place where it occurred in front of its message."""
        return type(self)(f"{context}: {self.message}", name=self.name)


class SpecError(JunctureError, ValueError):
    """An argument has a value that no tables could satisfy."""


def wrong_type(argument: str, value: object, what: str, expected: str, name: str = "JN-ARGUMENT-TYPE") -> SpecError:
    """Return the error for an argument whose value is not ``what``.

    Examples
    --------
    >>> wrong_type("suffix", 3, "a string", 'for example suffix="_right"').message
    'suffix=3 (int) is not a string. Expected for example suffix="_right".'
    """
    return SpecError(f"{argument}={value!r} ({type(value).__name__}) is not {what}. Expected {expected}.", name=name)


class SchemaError(JunctureError, ValueError):
    """The arguments do not fit the schemas of the two tables."""


class PlanError(JunctureError):
    """The join is well defined but cannot be run with this algorithm, engine or setting."""


class DataError(JunctureError):
    """The data, once read, break what was promised of them."""


class StateError(JunctureError):
    """What a join keeps while it runs (spill files, state) cannot be kept."""


def error_from_spark(error: BaseException) -> JunctureError | None:
    """Return the error that an exception of Spark carries; None if it carries none.

    Spark runs tasks when a DataFrame is collected, counted or written. An error in a task ends that action with an
    exception of Spark, which names the error in its text.

    Parameters
    ----------
    error
        What the action raised, or what ``StreamingQuery.exception()`` returns, in classic Spark and Spark Connect.

    Examples
    --------
    >>> error_from_spark(RuntimeError("[USER_RAISED_EXCEPTION] juncture.errors.DataError: A tie. SQLSTATE: P0001"))
    DataError('A tie.')
    """
    if isinstance(error, JunctureError):
        return error
    match = _CARRIED.search(str(error))
    kind = _KINDS.get(match["kind"]) if match else None
    return None if match is None or kind is None else kind(match["message"].strip(), name=match["name"] or "")


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise the `JunctureError` that an exception of Spark carries in place of that exception.

    Raises
    ------
    JunctureError
        If Spark raised an exception that carries it. Other exceptions pass.

    Examples
    --------
    >>> with spark_errors():
    ...     raise RuntimeError("[USER_RAISED_EXCEPTION] juncture.errors.DataError: A tie. SQLSTATE: P0001")
    Traceback (most recent call last):
    juncture.errors.DataError: A tie.
    """
    try:
        yield
    except Exception as error:
        juncture_error = error_from_spark(error)
        if juncture_error is None or juncture_error is error:
            raise
        # The text of Spark's exception may have hundreds of lines of Java; debuggers find it as the context.
        raise juncture_error from None


@contextmanager
def optional_packages(feature: str) -> Iterator[None]:
    """Raise `PlanError` in place of `ImportError` if an optional package is missing that a feature imports here.

    Examples
    --------
    >>> with optional_packages("A chart"):  # doctest: +ELLIPSIS
    ...     raise ModuleNotFoundError("No module named 'altair'", name="altair")
    Traceback (most recent call last):
    juncture.errors.PlanError: [JN-PACKAGE-MISSING] A chart needs 'altair' ... Run pip install 'juncture[html]'.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        raise PlanError(
            f"{feature} needs {package!r} ({error}). Run pip install 'juncture[{_EXTRAS[package]}]'.",
            name="JN-PACKAGE-MISSING",
        ) from error


_KINDS = {kind.__name__: kind for kind in (SpecError, SchemaError, PlanError, DataError, StateError)}


def error_of(kind: str, message: str, name: str) -> JunctureError:
    """Return an error as another process had it."""
    return _KINDS[kind](message, name=name)


def _rebuild(kind: type[AnyError], message: str, name: str) -> AnyError:
    return kind(message, name=name)


def _on_a_screen(message: str) -> str:
    """Return a message without its middle, where it is long: what is wrong comes first, and what to do last."""
    lines = message.split("\n")
    if len(lines) > _SCREEN_LINES:
        half = _SCREEN_LINES // 2
        message = "\n".join([*lines[:half], "…", *lines[-half:]])
    if len(message) > _SCREEN_CHARACTERS:
        half = _SCREEN_CHARACTERS // 2
        message = f"{message[:half]} … {message[-half:]}"
    return message


def closest(name: str, choices: Iterable[str]) -> str | None:
    """Return the known name that is spelled most like a name, if any is.

    Examples
    --------
    >>> closest("robot", ["ts", "robot_id"])
    'robot_id'
    """
    lowered = {candidate.lower(): candidate for candidate in choices}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return a hint that names the closest of the known names, or lists them.

    Examples
    --------
    >>> did_you_mean("robot", ["ts", "robot_id"])
    "Did you mean 'robot_id'?"
    >>> did_you_mean("zzz", ["ts", "robot_id"])
    "There are: 'ts', 'robot_id'."
    """
    names = list(choices)
    close = closest(name, names)
    if close is not None:
        return f"Did you mean {close!r}?"
    if not names:
        return "There are none."
    listed = ", ".join(repr(candidate) for candidate in names[:12])
    return f"There are: {listed}{', …' if len(names) > 12 else ''}."
