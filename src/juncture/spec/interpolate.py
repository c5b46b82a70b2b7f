"""Interpolation: values on the line between the row before and the row after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.schemas import check_columns, hint
from juncture.columnar.types import plain_type
from juncture.errors import SchemaError, SpecError
from juncture.ordered.domain import Distance, Domain
from juncture.spec.arguments import check_name, check_suffix
from juncture.spec.asof import Asof
from juncture.spec.expression import Expr
from juncture.spec.many import Right
from juncture.spec.schema import common_domain

# Chosen to differ from the names of the user's columns.
BEFORE, AFTER = "juncture:before:", "juncture:after:"
"""Prefixes of the columns of the row before and of the row after."""


@dataclass(frozen=True)
class InterpolatedColumns:
    """The columns to interpolate between the rows before and after.

    ``kept`` are the left columns. ``columns`` are pairs of a right column and the output name of its values.
    """

    kept: tuple[str, ...]
    on: str
    right_on: str
    domain: Domain
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Interpolation:
    """The meaning of an interpolation: the as-of joins for the rows before and after, and the columns of numbers."""

    before: Asof
    after: Asof
    columns: tuple[str, ...]
    suffix: str

    @classmethod
    def of(
        cls,
        columns: str | Sequence[str],
        tolerance: Distance | tuple[Distance | None, Distance | None] | None,
        suffix: str,
        **shared: object,
    ) -> Interpolation:
        """Validate the arguments of `juncture.interpolate`, and return their meaning."""
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        for name in names:
            check_name("columns", name)
        if not names or len(set(names)) < len(names):
            raise SpecError(
                f"columns={columns!r} is empty or names a column twice. Expected one or more different right columns "
                "with numbers.",
                name="JN-ARGUMENT-VALUE",
            )
        check_suffix(suffix)
        sides = tolerance if isinstance(tolerance, tuple | list) else (tolerance, tolerance)
        if len(sides) != 2:
            raise SpecError(
                f"tolerance={tolerance!r} has {len(sides)} values. Expected one distance, or a pair for the row "
                "before and the row after.",
                name="JN-ARGUMENT-VALUE",
            )
        before, after = (
            # The interpolation needs the times of the right rows, so the right `on` must remain a column.
            Asof(direction=direction, tolerance=each, coalesce=False, **shared)  # type: ignore[arg-type]
            for direction, each in (("backward", sides[0]), ("forward", sides[1]))
        )
        for key in (*before.on_pair(), *(key for pair in before.by_pairs() for key in pair)):
            if isinstance(key, Expr):
                raise SpecError(
                    f"{key.text!r} is an expression, but interpolation needs columns. Add it to the tables as a column "
                    "first.",
                    name="JN-INTERPOLATE-EXPRESSION",
                )
        return cls(before=before, after=after, columns=names, suffix=suffix)

    def tables(self, right: object) -> dict[str, Right]:
        """Return the right table twice, for `join_many`: joined for the row before and for the row after."""
        wanted = dict.fromkeys([str(self.before.on_pair()[1]), *self.columns])
        return {
            "the row before": Right(right, self.before, {name: BEFORE + name for name in wanted}),
            "the row after": Right(right, self.after, {name: AFTER + name for name in wanted}),
        }

    def resolve(self, left: pa.Schema, right: pa.Schema) -> InterpolatedColumns:
        """Validate the interpolation against two schemas."""
        on, right_on = map(str, self.before.on_pair())
        check_columns(right, self.columns, argument="columns", side="right")
        for name, schema, side in ((on, left, "left"), (right_on, right, "right")):
            if name not in schema.names:
                raise SchemaError(
                    f"on={name!r} is not a column of the {side} table. {hint(name, schema)}", name="JN-COLUMN-MISSING"
                )
        named = list[tuple[str, str]]()
        for name in self.columns:
            data_type = plain_type(right.field(name).type)
            if not (pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type)):
                raise SchemaError(
                    f"columns={name!r} is a right column of type {data_type}, but interpolation needs numbers. Cast "
                    "it to an integer, float or decimal first.",
                    name="JN-TYPE-UNSUPPORTED",
                )
            output = name + self.suffix if name in left.names else name
            if output in left.names or output in (each for _, each in named):
                raise SchemaError(
                    f"Right column {name!r} would be named {output!r}, which is already a column. Pass another "
                    f"suffix= (now {self.suffix!r}).",
                    name="JN-OUTPUT-COLUMN-TAKEN",
                )
            named.append((name, output))
        domain = common_domain(left.field(on), right.field(right_on))
        return InterpolatedColumns(tuple(left.names), on, right_on, domain, tuple(named))
