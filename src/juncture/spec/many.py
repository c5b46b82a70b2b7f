"""Joins of several tables to one spine: each table adds columns, never rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import pyarrow as pa

from juncture.columnar.schemas import check_columns
from juncture.errors import JunctureError, SchemaError, SpecError, did_you_mean, wrong_type
from juncture.spec.aggregate import Aggregate
from juncture.spec.arguments import check_choice, check_name, check_text, time_columns
from juncture.spec.base import Spec
from juncture.spec.resolved import Resolved
from juncture.spec.schema import OutputColumn

Duplicates = Literal["error", "greatest"]


@dataclass(frozen=True)
class Right:
    """A table to join to a spine with `juncture.join_many`, and the columns to add from it.

    Parameters
    ----------
    table
        The table: any input of a single join.
    spec
        How to join it: an `Asof` or `Equi`, or any spec with ``agg``. It must return at most one row per row of the
        spine, with ``how="left"``, or ``"inner"`` to drop rows of the spine without a match.
    columns
        The columns or aggregates to add: a list of names, or a mapping from them to new names. By default, all that a
        single join returns.
    prefix
        Prepended to the names of columns that no mapping renames.
    check_available_at
        The column with the time at which a row became available; or a pair of it and the column of the spine to compare
        it with, by default ``on``. `juncture.ManyPlan.match_report` counts matches that were not available yet as
        ``leaked``. The join does not exclude them: see ``available_at`` of `juncture.Asof`.
    duplicates
        What an equality join does with several matches of one row of the spine: ``"error"``, or ``"greatest"``, which
        takes the greatest row by its columns in schema order.
    algorithm
        As for a single join. Streams and changes ignore it.
    order
        For `juncture.stream_many`: the order of the rows of the table, a `juncture.Order` or a list of these.

    Raises
    ------
    SpecError
        If an argument is invalid, or the join can return several rows per row of the spine.

    Notes
    -----
    Creating it reads no data. See `juncture.join_many` for the time and memory of the join.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> departures = pa.table({"ts": [3, 9], "station": ["a", "b"]})
    >>> weather = pa.table({"ts": [1], "station": ["a"], "wind": [7.5]})
    >>> right = jn.Right(weather, jn.Asof(on="ts", by="station"), prefix="weather_")
    >>> jn.join_many(departures, {"weather": right}).to_pydict()
    {'ts': [3, 9], 'station': ['a', 'b'], 'weather_wind': [7.5, None]}
    """

    table: Any
    spec: Any
    columns: Sequence[str] | Mapping[str, str] | None = None
    prefix: str = ""
    check_available_at: str | tuple[str, str] | None = None
    duplicates: Duplicates = "error"
    algorithm: str = "auto"
    order: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.spec, Spec):
            raise wrong_type("spec", self.spec, "a join", 'a spec, such as juncture.Asof(on="ts")')
        _check_single(self.spec)
        columns = self.columns
        if columns is not None and (isinstance(columns, str) or not isinstance(columns, Sequence | Mapping)):
            example = 'columns=["wind"], or a mapping to new names such as columns={"wind": "wind_at_departure"}'
            raise wrong_type("columns", columns, "a list of column names", f"for example {example}")
        for name in [*(columns or ()), *(columns.values() if isinstance(columns, Mapping) else ())]:
            check_name("columns", name)
        check_text("prefix", self.prefix, 'for example prefix="weather_"')
        check_choice("duplicates", self.duplicates, get_args(Duplicates))
        if self.duplicates != "error" and not self.spec.is_lookup:
            raise SpecError(
                f"duplicates={self.duplicates!r} applies to equality joins only, but spec= is {self.spec.title}. "
                "Remove duplicates=.",
                name="JN-ARGUMENT-CONFLICT",
            )
        self._validate_check_available_at()

    def _validate_check_available_at(self) -> None:
        if self.check_available_at is None:
            return
        names = time_columns("check_available_at", self.check_available_at)
        if len(names) == 1 and not hasattr(self.spec, "on_pair"):
            raise SpecError(
                f"check_available_at={self.check_available_at!r} names no column of the spine to compare with, and "
                f'{self.spec.title} has no on=. Pass both, such as check_available_at=({names[0]!r}, "ts").',
                name="JN-AVAILABLE-AT-COLUMNS",
            )


@dataclass(frozen=True)
class LeakCheck:
    """The right column with the time at which a row became available, and the spine column to compare it with."""

    right: str
    left: str


@dataclass(frozen=True, kw_only=True)
class ResolvedTable:
    """A right table, validated against the spine. ``columns`` and ``aggregates`` have their output names."""

    name: str
    join: Resolved
    columns: tuple[OutputColumn, ...]
    aggregates: tuple[Aggregate, ...]
    duplicates: Duplicates
    check_available_at: LeakCheck | None

    @property
    def drops_unmatched(self) -> bool:
        """Whether rows of the spine without a match are dropped."""
        return self.join.how == "inner"

    @property
    def right_output(self) -> Resolved:
        """The join with an output of the right columns only."""
        return replace(self.join, output=self.columns, aggregates=self.aggregates)

    @property
    def names(self) -> list[str]:
        """The columns that the table adds to the spine."""
        return [*(each.name for each in self.columns), *(each.name for each in self.aggregates)]

    @property
    def keeping(self) -> Resolved:
        """The join that keeps all rows of the spine, with an output of the right columns only."""
        return replace(self.right_output, how="left", spec=replace(self.join.spec, how="left"))


def check_tables(tables: Any) -> dict[str, Right]:
    """Return the tables of `juncture.join_many`, or raise SpecError."""
    if not isinstance(tables, Mapping) or not tables:
        example = '{"weather": juncture.Right(weather, juncture.Asof(on="ts"))}'
        raise wrong_type("tables", tables, "a mapping of names to tables, or is empty", f"for example {example}")
    for name, right in tables.items():
        if not isinstance(name, str):
            raise SpecError(
                f"tables has the name {name!r} ({type(name).__name__}). Expected a string.", name="JN-ARGUMENT-TYPE"
            )
        if not isinstance(right, Right):
            raise SpecError(
                f"tables[{name!r}] is a {type(right).__name__}. Expected juncture.Right(table, spec), where spec is "
                'the join, such as juncture.Asof(on="ts").',
                name="JN-ARGUMENT-TYPE",
            )
    return dict(tables)


def resolve_table(name: str, right: Right, spine: pa.Schema, schema: pa.Schema, taken: set[str]) -> ResolvedTable:
    """Validate a right table against the spine, and name its columns, which are added to the names in ``taken``."""
    join: Resolved = right.spec.resolve(spine, schema)
    right_columns = [column for column in join.output if column.side == "right"]
    outputs: dict[str, Any] = {column.source: column for column in right_columns}
    if join.aggregates:
        outputs = {each.name: each for each in join.aggregates}
    wanted: dict[str, str | None] = dict.fromkeys(outputs)
    if right.columns is not None:
        wanted = dict(right.columns) if isinstance(right.columns, Mapping) else dict.fromkeys(right.columns)
    for column in wanted:
        if column not in outputs:
            raise _not_in_output(column, right, schema, list(outputs))
    columns, aggregates = list[OutputColumn](), list[Aggregate]()
    for source, new_name in wanted.items():
        each = outputs[source]
        output = _free(source if new_name is None else new_name, new_name is not None, right, taken)
        taken.add(output)
        if isinstance(each, Aggregate):
            aggregates.append(replace(each, name=output))
        else:
            columns.append(replace(each, name=output))
    return ResolvedTable(
        name=name,
        join=join,
        columns=tuple(columns),
        aggregates=tuple(aggregates),
        duplicates=right.duplicates,
        check_available_at=_leak_check(right, spine, schema),
    )


def named(name: str, error: JunctureError) -> JunctureError:
    """Return an error with the name of its table."""
    return error.within(f"In table {name!r}")


def _check_single(spec: Any) -> None:
    """Raise SpecError for joins that can return several rows per row of the spine, or other rows."""
    if not spec.agg and not spec.ranks_matches and not spec.is_lookup:
        raise SpecError(
            f"spec= is {spec.title}, which can return several rows per row of the spine, but a table of join_many "
            'must return at most one. Pass agg=, such as agg={"*": "count"}.',
            name="JN-MANY-MATCHES",
        )
    if spec.ranks_matches and spec.matches > 1:
        raise SpecError(
            f"matches={spec.matches} can return several rows per row of the spine, but a table of join_many must "
            "return at most one. Remove matches=.",
            name="JN-MANY-MATCHES",
        )
    if spec.how not in (None, "left", "inner"):
        raise SpecError(
            f"how={spec.how!r} is not available in join_many, which adds columns to the spine. Pass how='left', or "
            "how='inner' to drop rows of the spine without a match.",
            name="JN-ARGUMENT-VALUE",
        )


def _not_in_output(column: str, right: Right, schema: pa.Schema, names: list[str]) -> SchemaError:
    if column in schema.names:
        why = "agg= replaces the columns" if right.spec.agg else "it equals a column of the spine"
        return SchemaError(
            f"columns={column!r} is not in the output of this table, because {why}. Expected one of {names}.",
            name="JN-COLUMN-HIDDEN",
        )
    return SchemaError(
        f"columns={column!r} is not a column of this table. {did_you_mean(column, names)}", name="JN-COLUMN-MISSING"
    )


def _free(name: str, is_explicit: bool, right: Right, taken: set[str]) -> str:
    """Return the name of an output column, with the suffix if it is taken and not chosen by the caller."""
    output = name if is_explicit else right.prefix + name
    if output in taken and not is_explicit:
        output += right.spec.suffix
    if output in taken:
        raise SchemaError(
            f"Column {name!r} would be named {output!r}, which is already a column of the spine or of an earlier "
            "table. Pass prefix=, or columns= with a mapping to other names.",
            name="JN-OUTPUT-COLUMN-TAKEN",
        )
    return output


def _leak_check(right: Right, spine: pa.Schema, schema: pa.Schema) -> LeakCheck | None:
    if right.check_available_at is None:
        return None
    pair = time_columns("check_available_at", right.check_available_at)
    check = LeakCheck(pair[0], pair[1] if len(pair) == 2 else right.spec.on_pair()[0])
    check_columns(schema, [check.right], argument="check_available_at", side="right")
    check_columns(spine, [check.left], argument="check_available_at", side="left")
    return check
