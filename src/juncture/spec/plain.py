"""Specs as plain data: dicts of strings, numbers and lists, for TOML and for state that outlives a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeVar

from juncture.errors import SpecError, did_you_mean
from juncture.spec.duration import duration_ns, format_duration

__all__ = ["from_plain", "to_plain"]

_Spec = TypeVar("_Spec")

_KINDS = {
    "asof": "an as-of join",
    "range": "a range join",
    "overlap": "an overlap join",
    "where": "a predicate join",
    "equi": "an equality join",
}
_DISTANCES = ("tolerance", "lower", "upper")


def to_plain(spec: Any, kind: str) -> dict[str, Any]:
    """Return the kind of a spec and those of its arguments that differ from their defaults."""
    values = {f.name: getattr(spec, f.name) for f in fields(spec)}
    changed = {f.name: values[f.name] for f in fields(spec) if values[f.name] != f.default}
    return {"kind": kind} | {name: _plain(name, value) for name, value in changed.items()}


def _plain(argument: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(duration_ns(value, argument=argument))
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {key: _plain(argument, item) for key, item in value.items()}
    return value


def from_plain(spec: type[_Spec], kind: str, values: Mapping[str, Any]) -> _Spec:
    """Return the spec that `to_plain` described.

    Raises
    ------
    SpecError
        If the kind is another, or an argument is unknown.
    """
    if values.get("kind", kind) != kind:
        raise SpecError(f"kind={values['kind']!r} is not {_KINDS[kind]}. Expected {kind!r}.")
    arguments = {name: value for name, value in values.items() if name != "kind"}
    known = {f.name for f in fields(spec)}  # type: ignore[arg-type]  # a dataclass, which no bound of a TypeVar says
    for name, value in arguments.items():
        if name not in known:
            raise SpecError(f"{spec.__name__} has no argument {name!r}. {did_you_mean(name, known)}")
        if name in _DISTANCES and isinstance(value, Mapping):
            arguments[name] = Decimal(value["decimal"])
    return spec(**arguments)
