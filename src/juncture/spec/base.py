"""Base classes of all specs: conversion to plain data and back, and arguments that several kinds share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any, ClassVar, Self, get_args

import pyarrow as pa

from juncture.errors import SpecError, did_you_mean
from juncture.ordered.duration import TimeLength, duration_ns, format_duration
from juncture.spec.aggregate import (
    Agg,
    Aggregate,
    aggregate_how,
    freeze_aggregates,
    resolve_aggregates,
    typed_aggregated,
)
from juncture.spec.arguments import check_choice, check_suffix, freeze_names, pair_names
from juncture.spec.compared import ComparedColumns, ResolvedSides, output_columns
from juncture.spec.distance import Windows
from juncture.spec.expression import Expr, Key, Keys
from juncture.spec.resolved import Resolved
from juncture.spec.schema import How, OutputColumn

_ENDS = {"windows": ("lower", "upper"), "left_interval": ("start", "end"), "right_interval": ("start", "end")}
"""The names of ends in plain data, where they are a mapping, since TOML has no null for a missing one."""


class Spec(ABC):
    """The meaning of a join: a frozen dataclass with the arguments of its kind."""

    kind: ClassVar[str]
    title: ClassVar[str]  # the name of the kind in messages
    key_argument: ClassVar[str] = "by"  # the argument that names columns which must be equal
    # Whether a left row matches only the best of the right rows that it could match.
    ranks_matches: ClassVar[bool] = False
    # Whether `juncture.join_many` joins by it without aggregates, if each key occurs once.
    is_lookup: ClassVar[bool] = False

    how: How | None
    suffix: str
    names: tuple[str, str] = ("l", "r")
    agg: Agg | None = None
    windows: Windows | None = None

    @property
    def joined_as(self) -> type[Spec]:
        """The kind of join that engines run: the same kind, unless aggregates need another."""
        return type(self)

    @property
    def needs_all_matches(self) -> bool:
        """Whether a row of the output depends on several matches of its left row, or on there being none."""
        return self.ranks_matches or self.how not in (None, "inner", "right") or self.agg is not None

    def order_columns(self) -> tuple[str, ...]:
        """Return the right columns that the caller named to break ties."""
        return ()

    def ordered_keys(self) -> tuple[list[Key | None], list[Key | None]]:
        """Return the left and the right columns and expressions whose values are compared by their order."""
        return [], []

    @abstractmethod
    def resolve(self, left: pa.Schema, right: pa.Schema) -> Resolved:
        """Return the join of tables with these schemas, with all columns and types validated.

        Parameters
        ----------
        left, right
            The Arrow schemas of the inputs.

        Raises
        ------
        SpecError
            If an argument does not suit the columns, or an expression cannot be parsed.
        SchemaError
            If a column is missing or repeated, types do not compare, or an output name is taken.
        """

    @abstractmethod
    def key_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right columns or expressions that must be equal."""

    @abstractmethod
    def _retyped(self, join: Any, columns: ComparedColumns) -> Resolved:
        """Return a join resolved by this spec over columns of other types."""

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as plain data: its kind, and the arguments that differ from their defaults."""
        spec: Any = self
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(spec)}
        changed = {name: plain_value(name, value) for name, (value, default) in values.items() if value != default}
        return {"kind": self.kind} | changed

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the spec that `to_dict` described; raise SpecError for another kind, and for invalid arguments."""
        if values.get("kind", cls.kind) != cls.kind:
            raise SpecError(
                f"kind={values['kind']!r} is not {cls.title}. Expected kind={cls.kind!r}.", name="JN-ARGUMENT-VALUE"
            )
        arguments = {name: value for name, value in values.items() if name != "kind"}
        spec: Any = cls
        argument_names = {each.name for each in fields(spec)}
        for name, value in arguments.items():
            if name not in argument_names:
                raise SpecError(
                    f"{cls.__name__} has no argument {name!r}. {did_you_mean(name, argument_names)}",
                    name="JN-ARGUMENT-UNKNOWN",
                )
            # The columns of `agg` may have any name.
            arguments[name] = value if name == "agg" else restored(value)
        return cls(**arguments)


class KeyedSpec(Spec):
    """A spec with columns that must be equal, besides its condition."""

    by: Keys | None
    left_by: Keys | None
    right_by: Keys | None

    def by_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right ``by`` columns or expressions."""
        return pair_names("by", self.by, self.left_by, self.right_by)

    def key_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right columns or expressions that must be equal."""
        return self.by_pairs()


class OrderedSpec(KeyedSpec):
    """A spec that compares ordered ``on`` columns. ``used_for`` says for what, in messages."""

    used_for: ClassVar[str]

    on: Keys | None
    left_on: Keys | None
    right_on: Keys | None

    def on_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right ``on`` columns or expressions, the most significant first."""
        return pair_names("on", self.on, self.left_on, self.right_on)

    def on_pair(self) -> tuple[Key, Key]:
        """Return the left and the right ``on`` column or expression; raise SpecError unless there is one pair."""
        pairs = self.on_pairs()
        if len(pairs) != 1:
            raise SpecError(
                f'on= must name exactly one column {self.used_for}, but names {len(pairs)}. Pass on="ts", or left_on= '
                "and right_on= if the names differ.",
                name="JN-ON-COUNT",
            )
        return pairs[0]

    def ordered_keys(self) -> tuple[list[Key | None], list[Key | None]]:
        """Return the left and the right columns and expressions whose values are compared by their order."""
        pairs = self.on_pairs()
        return [left for left, _ in pairs], [right for _, right in pairs]

    def on_names(self) -> tuple[str, str]:
        """Return the names of the left and the right ``on`` in messages: ``(date, seq)`` and ``(day, n + 1)``."""
        lefts, rights = ([str(pair[index]) for pair in self.on_pairs()] for index in (0, 1))
        return (lefts[0], rights[0]) if len(lefts) == 1 else (f"({', '.join(lefts)})", f"({', '.join(rights)})")


class AggregatingSpec(KeyedSpec):
    """A spec that returns all matches of a left row, or aggregates over them."""

    def check_matches(self) -> None:
        """Validate the shared arguments, and store them in a comparable, picklable form."""
        self.by_pairs()
        check_answer(self)
        freeze_names(self, "by", "left_by", "right_by")


class ResolvedMatches(ResolvedSides):
    """What a join that returns or aggregates all matches of a left row resolves to, besides its condition."""

    how: How
    aggregates: tuple[Aggregate, ...]
    tie_columns: tuple[str, ...]
    output: tuple[OutputColumn, ...]


def resolved_matches(
    spec: Spec,
    columns: ComparedColumns,
    equal: Sequence[tuple[str, str]],
    *,
    ordered_by: str | None = None,
    windows: Sequence[str | None] = (None,),
) -> ResolvedMatches:
    """Return the aggregates and the output of a join whose condition has been resolved; ``equal`` pairs must be equal.

    Aggregates such as "first" order the matches of a left row by the right column ``ordered_by``, then the tie columns.
    """
    columns.right = typed_aggregated(spec.agg, columns.right)
    compared, how = {ordered_by, *(right for _, right in equal)}, aggregate_how(spec.how, spec.agg)
    tie_columns = tuple(name for name in columns.input_schema("right").names if name not in compared)
    aggregates = resolve_aggregates(spec.agg, columns.left, columns.right, tie_columns, spec.suffix, windows)
    return {
        **columns.sides(equal),
        "how": how,
        "aggregates": aggregates,
        "tie_columns": tie_columns,
        "output": output_columns(columns, how=how, equal=equal, suffix=spec.suffix, has_right=not spec.agg),
    }


def check_answer(spec: Any) -> None:
    """Validate ``how``, ``suffix`` and ``agg`` of a spec, and store ``agg`` in one form."""
    if spec.how is not None:
        check_choice("how", spec.how, get_args(How))
    check_suffix(spec.suffix)
    object.__setattr__(spec, "agg", freeze_aggregates(spec.agg))
    aggregate_how(spec.how, spec.agg)


def restored(value: Any) -> Any:
    """Return plain data with expressions and decimals restored."""
    if isinstance(value, Mapping):
        for name, kind in (("expr", Expr), ("decimal", Decimal)):
            if value.keys() == {name} and isinstance(value[name], str):
                return kind(value[name])
        return {name: restored(item) for name, item in value.items()}
    return [restored(item) for item in value] if isinstance(value, list | tuple) else value


def plain_value(argument: str, value: Any) -> Any:
    """Return the value of an argument as plain data."""
    if isinstance(value, Expr):
        return {"expr": value.text}
    if isinstance(value, TimeLength):
        return format_duration(duration_ns(value, argument=argument))
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, tuple) and (argument == "windows" or None in value):
        named = zip(_ENDS[argument], value, strict=True)
        return {end: plain_value(argument, item) for end, item in named if item is not None}
    if isinstance(value, tuple):
        return [plain_value(argument, item) for item in value]
    return {key: plain_value(argument, item) for key, item in value.items()} if isinstance(value, Mapping) else value
