"""Validation and normalization of arguments that several kinds of join share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from juncture.errors import SpecError, closest, wrong_type
from juncture.spec.elsewhere import choice_hint
from juncture.spec.expression import Expr, Key, Keys
from juncture.values import flag


def check_choice(argument: str, value: object, choices: Sequence[str]) -> None:
    """Raise SpecError unless a value is one of the choices, with the closest choice or a hint."""
    if isinstance(value, str) and value in choices:
        return
    expected = ", ".join(repr(choice) for choice in choices)
    if not isinstance(value, str):
        raise SpecError(
            f"{argument}={value!r} ({type(value).__name__}) is unknown. Expected one of {expected}.",
            name="JN-ARGUMENT-VALUE",
        )
    close = closest(value, choices)
    hint = choice_hint(argument, value) or (f"Did you mean {close!r}?" if close else "")
    message = f"{argument}={value!r} is unknown. Expected one of {expected}. {hint}".rstrip()
    raise SpecError(message, name="JN-ARGUMENT-VALUE")


def check_text(argument: str, value: object, expected: str) -> None:
    """Raise SpecError unless a value is a string."""
    if not isinstance(value, str):
        raise wrong_type(argument, value, "a string", expected)


def check_condition(value: object, example: str) -> None:
    """Raise SpecError unless ``where`` is None or a string."""
    if value is not None:
        check_text("where", value, f'SQL, such as where="{example}"')


def check_sequence(argument: str, value: object) -> None:
    """Raise SpecError unless a value is a column name or a sequence."""
    if not isinstance(value, str | tuple | Sequence):
        raise wrong_type(argument, value, "a column name", "a string or a list of strings")


def check_name(argument: str, name: object) -> None:
    """Raise SpecError unless a column name is a string."""
    if not isinstance(name, str):
        raise SpecError(
            f"{argument}= contains {name!r} ({type(name).__name__}). Expected a column name as a string.",
            name="JN-ARGUMENT-TYPE",
        )


def names_of(argument: str, value: object) -> tuple[str, ...]:
    """Return a column name or a sequence of names as a tuple; raise SpecError for others."""
    check_sequence(argument, value)
    names = (value,) if isinstance(value, str) else tuple(cast("Sequence[str]", value))
    for name in names:
        check_name(argument, name)
    return names


def time_columns(argument: str, value: object) -> tuple[str, ...]:
    """Return the right column with the time at which a row became available, and the left one, if it is named."""
    names = names_of(argument, value)
    if len(names) not in (1, 2):
        raise SpecError(
            f"{argument}={value!r} names {len(names)} columns. Expected the right column with the time at which a row "
            f'became available, and optionally the left column to compare it with, such as {argument}=("ingested_at", '
            '"seen_at").',
            name="JN-AVAILABLE-AT-COLUMNS",
        )
    return names


def check_suffix(suffix: object) -> None:
    """Raise SpecError unless the suffix is a string."""
    check_text("suffix", suffix, 'for example suffix="_right"')


def freeze_flags(spec: Any, *arguments: str) -> None:
    """Validate booleans of a frozen spec, and convert NumPy's to Python's."""
    for argument in arguments:
        value = getattr(spec, argument)
        if not isinstance(value, bool):
            object.__setattr__(spec, argument, flag(argument, value))


def freeze_names(spec: Any, *arguments: str) -> None:
    """Convert lists of names of a frozen spec to tuples, so that later changes to the lists have no effect."""
    for argument in arguments:
        value = getattr(spec, argument)
        if value is not None and not isinstance(value, str | tuple | Expr):
            object.__setattr__(spec, argument, tuple(value))


def pair_names(argument: str, both: Keys | None, left: Keys | None, right: Keys | None) -> list[tuple[Key, Key]]:
    """Return pairs of left and right columns or expressions, from ``x=`` or from ``left_x=`` and ``right_x=``."""
    if both is not None:
        if left is not None or right is not None:
            raise SpecError(
                f"{argument}={both!r} excludes left_{argument}= and right_{argument}=. Pass {argument}= if both "
                f"tables use the same names, else left_{argument}= and right_{argument}=.",
                name="JN-ARGUMENT-CONFLICT",
            )
        return [(name, name) for name in _names(argument, both)]
    if left is None and right is None:
        return []
    if left is None or right is None:
        present, missing = ("left", "right") if right is None else ("right", "left")
        raise SpecError(
            f"{present}_{argument}={left if right is None else right!r} needs {missing}_{argument}=. Pass both, or "
            f"{argument}= if both tables use the same names.",
            name="JN-ARGUMENT-CONFLICT",
        )
    lefts, rights = _names(f"left_{argument}", left), _names(f"right_{argument}", right)
    if len(lefts) != len(rights):
        raise SpecError(
            f"left_{argument}= names {len(lefts)} columns, but right_{argument}= names {len(rights)}. Columns are "
            "paired in order: pass lists of equal length.",
            name="JN-KEY-COUNT",
        )
    return list(zip(lefts, rights, strict=True))


def _names(argument: str, value: Keys) -> list[Key]:
    if isinstance(value, str | Expr):
        return [value]
    check_sequence(argument, value)
    for name in value:
        if not isinstance(name, Expr):
            check_name(argument, name)
    if len(set(value)) != len(value):
        raise SpecError(
            f"{argument}={list(value)!r} names a column twice. Remove the duplicate.", name="JN-COLUMN-REPEATED"
        )
    return list(value)
