"""Reading of pipeline files: parameters are substituted and sections validated; problems have their lines."""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from juncture.errors import JunctureError, did_you_mean
from juncture.pipeline.graph import check_graph
from juncture.pipeline.model import (
    INTERPOLATE,
    MANY,
    Check,
    Derived,
    File,
    InterpolateStep,
    JoinStep,
    ManyStep,
    ManyTable,
    Settings,
    SinkSection,
    SourceSection,
    SqlStep,
    Step,
)
from juncture.pipeline.problems import Path, PipelineError, Problem, Problems, lines_of
from juncture.spec.kinds import KINDS
from juncture.spec.many import Right
from juncture.spec.spines import Interpolation

_JOINS = (*KINDS, MANY, INTERPOLATE)
_TABLES = ("pipeline", "parameters", "spark", "sources", "steps", "checks", "sinks")
_RIGHT_KEYS = ("columns", "prefix", "check_available_at", "duplicates", "algorithm")

_PARAMETER = re.compile(r"\$(\$\{|\{([^}]*)\})")

_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "names_type": "text or a list",
    "dict_type": "a table",
    "model_type": "a table",
    "date_type": "a date",
    "datetime_type": "a time",
}
"""The expected type by Pydantic's error type."""

Table = TypeVar("Table", bound=BaseModel)
Placed = TypeVar("Placed", SourceSection, SinkSection)


def read_file(
    text: str, name: str, parameters: Mapping[str, Any] | None = None, folder: pathlib.Path = pathlib.Path()
) -> tuple[File, dict[Path, int]]:
    """Parse and validate a pipeline file, with values for its parameters, and return it with the line of each key.

    Relative paths start at ``folder``.
    """
    try:
        raw = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        position = re.search(r"\(at line (\d+)", str(error))
        line = int(position[1]) if position else text.count("\n") + 1
        message = re.sub(r" \(at [^)]*\)$", "", str(error))
        raise PipelineError(name, [Problem(line, "", f"This is not valid TOML: {message}.")]) from error
    problems = Problems(lines_of(text))
    for key in raw:
        if key not in _TABLES:
            problems.add((key,), f"The section [{key}] is unknown. {did_you_mean(key, _TABLES)}")
        elif not isinstance(raw[key], list if key == "checks" else dict):
            expected = "Write [[checks]], once for each check" if key == "checks" else f"Write [{key}]"
            problems.add((key,), f"{key!r} has the wrong form. {expected}.")
            raw[key] = [] if key == "checks" else {}
    raw = _with_parameters(raw, parameters or {}, problems)
    file = File.model_construct(
        pipeline=_valid(Settings, raw.get("pipeline", {}), ("pipeline",), problems) or Settings(),
        parameters=raw.get("parameters", {}),
        spark=raw.get("spark", {}),
        sources=_each(SourceSection, raw.get("sources", {}), "sources", folder, problems),
        steps={
            key: step
            for key, value in raw.get("steps", {}).items()
            if (step := _step(value, ("steps", key), problems)) is not None
        },
        checks=[
            check
            for number, value in enumerate(raw.get("checks", []))
            if (check := _valid(Check, value, ("checks", number), problems)) is not None
        ],
        sinks=_each(SinkSection, raw.get("sinks", {}), "sinks", folder, problems),
        folder=folder,
    )
    if not raw.get("sources"):
        problems.add((), 'No sources are defined. Write a section [sources.trades] with path = "trades.parquet".')
    named = {key: list(raw.get(key, {})) for key in ("sources", "steps")}
    check_graph(file, named, problems)
    if problems.entries:
        raise PipelineError(name, problems.entries)
    return file, dict(problems.lines)


def _each(
    model: type[Placed], raw: Mapping[str, Any], table: str, folder: pathlib.Path, problems: Problems
) -> dict[str, Placed]:
    read = {key: _valid(model, value, (table, key), problems) for key, value in raw.items()}
    return {key: value.placed_in(folder) for key, value in read.items() if value is not None}


def _valid(model: type[Table], raw: Any, path: Path, problems: Problems) -> Table | None:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        _add_errors(error, model, raw, path, problems)
        return None


def _add_errors(error: ValidationError, model: type[BaseModel], raw: Any, path: Path, problems: Problems) -> None:
    """Add Pydantic's errors as problems, once per key."""
    errors: dict[Path, list[Any]] = {}
    for each in error.errors():
        key_path = _keys_of(each["loc"], raw, is_missing=each["type"] == "missing")
        errors.setdefault(key_path, []).append(each)
    for key_path, of_key in errors.items():
        if any(other[: len(key_path)] == key_path and other != key_path for other in errors):
            # A problem within a table is more specific than its type.
            continue
        kinds = {each["type"] for each in of_key}
        if "missing" in kinds:
            problems.add((*path, *key_path[:-1]), f"The required key {str(key_path[-1])!r} is missing.")
        elif kinds == {"extra_forbidden"}:
            unknown = _unknown_key(str(key_path[-1]), _keys_at(model, key_path[:-1]))
            problems.add((*path, *key_path), unknown)
        else:
            value = of_key[0]["input"]
            value_text = f"{value!r} is " + ("a table" if isinstance(value, dict) else f"of type {_type_name(value)}")
            problems.add((*path, *key_path), _error_text(of_key, value_text))


def _unknown_key(key: str, keys: Iterable[str]) -> str:
    return f"The key {key!r} is unknown here. {did_you_mean(key, keys)}"


def _error_text(errors: list[Any], value_text: str) -> str:
    first = errors[0]
    if first["type"] == "literal_error":
        return f"{first['input']!r} is unknown. Expected {first['ctx']['expected']}."
    if all(each["type"] in _EXPECTED or each["type"] in ("decimal_type", "is_instance_of") for each in errors):
        expected = dict.fromkeys(_EXPECTED[each["type"]] for each in errors if each["type"] in _EXPECTED)
        return f"{value_text}. Expected {' or '.join(expected)}."
    if first["type"] == "string_too_short":
        return "The text is empty. Expected at least one character."
    return f"{first['input']!r} is invalid: {first['msg'][:1].lower() + first['msg'][1:]}."


def _keys_of(location: tuple[str | int, ...], raw: Any, *, is_missing: bool) -> Path:
    """Return the keys of a location, without the type alternatives that Pydantic includes."""
    keys: list[str | int] = []
    for part in location:
        is_there = part in raw if isinstance(raw, dict) else isinstance(raw, list) and part in range(len(raw))
        if is_there:
            raw = raw[part]
        if is_there or (is_missing and part == location[-1]):
            keys.append(part)
    return tuple(keys)


def _keys_at(model: type[BaseModel], path: Path) -> list[str]:
    """Return the keys of a section, or of a section within it."""
    for part in path:
        field = next((each for name, each in model.model_fields.items() if part in (name, each.alias)), None)
        inner = _models_in(None if field is None else field.annotation)
        model = inner[0] if inner else model
    return [each.alias or name for name, each in model.model_fields.items()]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for each in getattr(annotation, "__args__", ()) for model in _models_in(each)]


def _type_name(value: Any) -> str:
    names = {str: "text", bool: "boolean", int: "integer", Decimal: "float", list: "array"}
    return names.get(type(value), type(value).__name__)


def _step(raw: Any, path: Path, problems: Problems) -> Step | None:
    if not isinstance(raw, dict):
        problems.add(path, f"{raw!r} is not a section. Write [{'.'.join(map(str, path))}] with the keys of a step.")
        return None
    if "join" not in raw:
        if "from" not in raw:
            problems.add(path, 'A step needs join = "asof" (or another kind), or from = "…".')
            return None
        if "sql" in raw:
            return _valid(SqlStep, raw, path, problems)
        return _valid(Derived, raw, path, problems)
    kind = raw["join"]
    if kind not in _JOINS:
        problems.add((*path, "join"), f"join={kind!r} is unknown. {did_you_mean(str(kind), _JOINS)}")
        return None
    needed = ("left",) if kind == MANY else ("left", "right")
    for side in needed:
        if side not in raw:
            problems.add(path, f"The required key {side!r} is missing. Expected the name of a source or step.")
        elif not isinstance(raw[side], str):
            problems.add((*path, side), f"{raw[side]!r} is not a name. Expected the name of a source or step.")
    if any(not isinstance(raw.get(side), str) for side in needed):
        return None
    rest = {key: value for key, value in raw.items() if key not in ("join", *needed)}
    if kind == MANY:
        return _many(raw["left"], rest, path, problems)
    if kind == INTERPOLATE:
        return _interpolate(raw["left"], raw["right"], rest, path, problems)
    algorithm = rest.pop("algorithm", "auto")
    spec = _spec(kind, rest, path, problems)
    if spec is None:
        return None
    return JoinStep.model_construct(left=raw["left"], right=raw["right"], spec=spec, algorithm=algorithm)


def _spec(kind: str, arguments: Mapping[str, Any], path: Path, problems: Problems) -> Any:
    """Return the spec of a join, or None after adding the problems of its arguments."""
    try:
        # Sections become plain dictionaries.
        plain = {key: dict(value) if isinstance(value, Mapping) else value for key, value in arguments.items()}
        return KINDS[kind].from_dict(plain)
    except JunctureError as error:
        problems.add_named(path, error, list(arguments))
    except TypeError as error:
        missing = re.findall(r"'(\w+)'", str(error).partition("required")[2])
        if not missing:
            problems.add(path, f"The arguments of {KINDS[kind].title} are invalid: {error}.")
        for key in missing:
            problems.add(path, f"The required key {key!r} of {KINDS[kind].title} is missing.")
    return None


def _many(left: str, raw: Mapping[str, Any], path: Path, problems: Problems) -> ManyStep | None:
    for key in raw:
        if key != "tables":
            problems.add((*path, key), _unknown_key(key, ("left", "tables")))
    tables = raw.get("tables")
    if not isinstance(tables, dict) or not tables:
        problems.add(path, f"The tables are missing. Write [{'.'.join(map(str, path))}.tables.NAME] for each of them.")
        return None
    read = {name: _many_table(value, (*path, "tables", name), problems) for name, value in tables.items()}
    if any(table is None for table in read.values()):
        return None
    return ManyStep.model_construct(left=left, tables=read)


def _many_table(raw: Any, path: Path, problems: Problems) -> ManyTable | None:
    if not isinstance(raw, dict) or raw.get("join") not in KINDS or not isinstance(raw.get("right"), str):
        problems.add(path, f'A table needs right = "…", and join = one of {", ".join(KINDS)}.')
        return None
    options = {key: raw[key] for key in _RIGHT_KEYS if key in raw}
    if isinstance(options.get("check_available_at"), list):
        options["check_available_at"] = tuple(options["check_available_at"])
    arguments = {key: value for key, value in raw.items() if key not in ("join", "right", *_RIGHT_KEYS)}
    spec = _spec(raw["join"], arguments, path, problems)
    if spec is None:
        return None
    try:
        right = Right(None, spec, **options)
    except JunctureError as error:
        problems.add_named(path, error, list(raw))
        return None
    return ManyTable.model_construct(right=raw["right"], definition=right)


def _interpolate(
    left: str, right: str, raw: Mapping[str, Any], path: Path, problems: Problems
) -> InterpolateStep | None:
    allowed = ("columns", "on", "left_on", "right_on", "by", "left_by", "right_by", "tolerance", "suffix")
    unknown = [key for key in raw if key not in allowed]
    for key in unknown:
        problems.add((*path, key), _unknown_key(key, allowed))
    if "columns" not in raw:
        problems.add(path, "The required key 'columns' is missing. Expected numeric columns of the right table.")
        return None
    if unknown:
        return None
    arguments: dict[str, Any] = dict(raw)
    if isinstance(raw.get("tolerance"), list):
        arguments["tolerance"] = tuple(raw["tolerance"])
    rest = dict(arguments)
    try:
        spec = Interpolation.of(rest.pop("columns"), rest.pop("tolerance", None), rest.pop("suffix", "_right"), **rest)
        return InterpolateStep.model_construct(left=left, right=right, arguments=arguments, spec=spec)
    except JunctureError as error:
        problems.add_named(path, error, list(raw))
        return None


def _with_parameters(raw: dict[str, Any], parameters: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    values = dict(raw.get("parameters", {}))
    for name, value in parameters.items():
        if name not in values:
            problems.add(("parameters",), f"The parameter {name!r} does not exist. {did_you_mean(name, values)}")
            continue
        try:
            values[name] = _like(values[name], value)
        except (ValueError, InvalidOperation):
            expected = _type_name(values[name])
            problems.add(
                ("parameters", name), f"The parameter {name!r} has the value {value!r}. Expected type {expected}."
            )
    filled = {key: _filled(value, (key,), values, problems) for key, value in raw.items() if key != "parameters"}
    return filled | {"parameters": values}


def _like(default: Any, value: Any) -> Any:
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, bool):
        return {"true": True, "false": False}[value.lower()] if value.lower() in ("true", "false") else int("no")
    kinds: list[tuple[type[Any], Any]] = [(int, int), (Decimal, Decimal), (datetime, datetime.fromisoformat)]
    kinds.append((date, date.fromisoformat))
    return next((read(value) for kind, read in kinds if isinstance(default, kind)), value)


def _filled(value: Any, path: Path, values: Mapping[str, Any], problems: Problems) -> Any:
    """Substitute parameters in a value. ``$${`` is an escaped ``${``."""
    if isinstance(value, dict):
        return {key: _filled(each, (*path, key), values, problems) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, (*path, number), values, problems) for number, each in enumerate(value)]
    if not isinstance(value, str):
        return value
    names = [match[2] for match in _PARAMETER.finditer(value) if match[1] != "${"]
    for name in names:
        if name not in values:
            hint = f"{did_you_mean(name, values)} Write [parameters] with {name} = …, or $${{ for a literal ${{."
            problems.add(path, f"The parameter {name!r} does not exist. {hint}")
            return value
    parameter = _PARAMETER.fullmatch(value)
    if parameter and names:
        return values[names[0]]
    return _PARAMETER.sub(lambda match: "${" if match[1] == "${" else str(values[match[2]]), value)
