"""What all specs can: become plain data and back, for TOML and for state that outlives a process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any, ClassVar, Self, get_args

import pyarrow as pa

from juncture.errors import SpecError, did_you_mean
from juncture.spec.aggregate import Agg, aggregate_how, freeze_aggregates
from juncture.spec.arguments import check_choice, check_suffix, freeze_names, pair_names
from juncture.spec.computed import Expr, Key, Keys
from juncture.spec.duration import duration_ns, format_duration
from juncture.spec.resolved import Resolved
from juncture.spec.schema import How
from juncture.spec.values import TimeLength

_DISTANCES = ("tolerance", "lower", "upper")


class Spec(ABC):
    """What a join means; a frozen dataclass of the arguments of its kind.

    Attributes
    ----------
    kind
        What plain data call it.
    title
        What a sentence calls it.
    """

    kind: ClassVar[str]
    title: ClassVar[str]

    @property
    def joined_as(self) -> type[Spec]:
        """The kind of join that engines run for it: its own, unless its matches are aggregated in another way."""
        return type(self)

    @abstractmethod
    def resolve(self, left: pa.Schema, right: pa.Schema) -> Resolved:
        """Check the spec against the schemas of both inputs, and work out all that follows from them.

        Parameters
        ----------
        left, right
            The Arrow schemas of the inputs.

        Raises
        ------
        SpecError
            If an argument has no meaning for the columns.
        SchemaError
            If a column is missing or repeated, types do not compare, or an output name is taken.
        """

    @abstractmethod
    def key_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right columns, or expressions, that have to be equal."""

    @abstractmethod
    def _over(self, join: Any, left: pa.Schema, right: pa.Schema) -> Resolved:
        """Return a join that this spec resolved to for other schemas, which have all columns that it compares."""

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as plain data: the arguments that differ from their defaults, and its kind."""
        spec: Any = self
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(spec)}
        changed = {name: _plain(name, value) for name, (value, default) in values.items() if value != default}
        return {"kind": self.kind} | changed

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the spec that `to_dict` described.

        Raises
        ------
        SpecError
            If the kind is another, or an argument is unknown.
        """
        if values.get("kind", cls.kind) != cls.kind:
            raise SpecError(
                f"kind={values['kind']!r} is not {cls.title}. Expected kind={cls.kind!r}.", name="JN-ARGUMENT-VALUE"
            )
        arguments = {name: value for name, value in values.items() if name != "kind"}
        spec: Any = cls
        known = {each.name for each in fields(spec)}
        for name, value in arguments.items():
            if name not in known:
                raise SpecError(
                    f"{cls.__name__} has no argument {name!r}. {did_you_mean(name, known)}", name="JN-ARGUMENT-UNKNOWN"
                )
            if name in _DISTANCES and isinstance(value, Mapping):
                arguments[name] = Decimal(value["decimal"])
            else:
                arguments[name] = _with_expressions(value)
        return cls(**arguments)


class KeyedSpec(Spec):
    """What a join means in which some columns have to be equal besides."""

    by: Keys | None
    left_by: Keys | None
    right_by: Keys | None

    def by_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right ``by`` columns, or expressions."""
        return pair_names("by", self.by, self.left_by, self.right_by)

    def key_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right columns, or expressions, that have to be equal."""
        return self.by_pairs()


class OrderedSpec(KeyedSpec):
    """What a join means that compares what orders each side besides.

    Attributes
    ----------
    used_for
        What a sentence says that it does with the column.
    """

    used_for: ClassVar[str]

    on: Keys | None
    left_on: Keys | None
    right_on: Keys | None

    def on_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right ``on`` columns, or expressions; the first is compared first."""
        return pair_names("on", self.on, self.left_on, self.right_on)

    def on_pair(self) -> tuple[Key, Key]:
        """Return the left and the right ``on`` column, or expression, where there is to be one."""
        pairs = self.on_pairs()
        if len(pairs) != 1:
            raise SpecError(
                f'on= must name exactly one column {self.used_for}, but names {len(pairs)}. Pass on="ts", or left_on= '
                "and right_on= if the names differ.",
                name="JN-ON-COUNT",
            )
        return pairs[0]

    def on_names(self) -> tuple[str, str]:
        """Return what sentences call the left and the right ``on``.

        Examples
        --------
        >>> from juncture import Asof, expr
        >>> Asof(left_on=["date", "seq"], right_on=["day", expr("n + 1")]).on_names()
        ('(date, seq)', '(day, n + 1)')
        """
        lefts, rights = ([str(pair[place]) for pair in self.on_pairs()] for place in (0, 1))
        return (lefts[0], rights[0]) if len(lefts) == 1 else (f"({', '.join(lefts)})", f"({', '.join(rights)})")


class AggregatingSpec(KeyedSpec):
    """What a join means that gives all matches of a left row, or aggregates of them."""

    how: How | None
    agg: Agg | None
    suffix: str

    def check_matches(self) -> None:
        """Check what these specs have in common, and keep it as it is compared and pickled."""
        self.by_pairs()
        check_answer(self)
        freeze_names(self, "by", "left_by", "right_by")


def check_answer(spec: Any) -> None:
    """Check what a spec says of the rows and columns that it gives, aggregates included, and keep it in one form.

    Raises
    ------
    SpecError
        If it makes no sense.
    """
    if spec.how is not None:
        check_choice("how", spec.how, get_args(How))
    check_suffix(spec.suffix)
    object.__setattr__(spec, "agg", freeze_aggregates(spec.agg))
    aggregate_how(spec.how, spec.agg)


def _with_expressions(value: Any) -> Any:
    """Return plain data in which expressions are such again."""
    if isinstance(value, Mapping) and value.keys() == {"expr"}:
        return Expr(value["expr"])
    return [_with_expressions(item) for item in value] if isinstance(value, list | tuple) else value


def _plain(argument: str, value: Any) -> Any:
    if isinstance(value, Expr):
        return {"expr": value.text}
    if isinstance(value, TimeLength):
        return format_duration(duration_ns(value, argument=argument))
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, tuple):
        return [_plain(argument, item) for item in value]
    if isinstance(value, Mapping) and argument == "windows":
        # TOML has no null.
        ends = {name: zip(("lower", "upper"), pair, strict=True) for name, pair in value.items()}
        return {
            name: {side: _plain(argument, end) for side, end in pair if end is not None} for name, pair in ends.items()
        }
    if isinstance(value, Mapping):
        return {key: _plain(argument, item) for key, item in value.items()}
    return value
