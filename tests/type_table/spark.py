"""Trials of Spark's types."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import filterfalse

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import array, expr, lit
from pyspark.sql.types import StructField, StructType

import juncture as jn
from juncture.errors import JunctureError
from juncture.spark.schema import arrow_schema, check_types
from support.engines import SENT, algorithms_on_spark
from support.kinds import Spec
from support.session import with_time
from type_table.column_types import ColumnType, Types, sharing
from type_table.outcomes import Attempt, Outcome
from type_table.roles import ROLES, SAMPLE, Columns, Role, Trial, is_aggregate, is_tried, keeps_type
from type_table.spark_types import NUMBERS, TYPES, Tables

__all__ = ["IN_SQL", "THROUGH_ARROW", "Spark"]

THROUGH_ARROW = ("hash", "broadcast", "sort_merge")
IN_SQL = ("window", "nested_loop", "sort_merge", "broadcast")
"""Algorithms, of which the first that serves runs a join."""

ANSWERS = 16
"""How many answers one query compares, which takes less time than a query for each."""

SMALL = jn.Stats(left=jn.SideStats(rows=1_000), right=jn.SideStats(rows=1_000))

Rows = Counter[tuple[str | None, ...]]
"""Rows as texts."""


@dataclass(frozen=True)
class Group:
    """Types that are tried by one join.

    Attributes
    ----------
    role, trial
        The join.
    types
        Those of its columns.
    answer
        Runs it.
    expected
        What it has to give.
    """

    role: Role
    trial: Trial
    types: Types
    answer: Callable[[], DataFrame]
    expected: DataFrame

    def attempt(self, column_type: ColumnType, problem: str | None) -> Attempt:
        """Return what became of one of the types, which was not refused."""
        return Attempt(column_type.name, self.role.name, _way(self.trial), Outcome(), problem)


@dataclass(frozen=True)
class Spark:
    """Spark in a session, where every join costs a good part of a second: types share those that they can.

    Attributes
    ----------
    session
        The session.
    algorithms
        What runs the joins.
    """

    session: SparkSession
    algorithms: Sequence[str]
    name: str = "Spark"
    types: Sequence[ColumnType] = TYPES

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self.session)

    def attempts(self) -> Iterator[Attempt]:
        """Try all types in all roles. What the schemas tell is refused without a query."""
        with with_time(self.session):
            yield from self._attempts()

    def _attempts(self) -> Iterator[Attempt]:
        schemas = self._schemas()
        groups: list[Group] = []
        for role in ROLES:
            for trial in role.trials:
                passed = []
                for each in self.types:
                    try:
                        _check(trial.spec(["x"]), schemas[each.name])
                    except JunctureError as error:
                        refusal = Outcome(type(error).__name__, str(error))
                        yield Attempt(each.name, role.name, _way(trial), refusal)
                    else:
                        passed.append(each)
                groups += [self._group(role, trial, each) for each in sharing(trial, passed, len(self.types))]
        for start in range(0, len(groups), ANSWERS):
            yield from self._compared(groups[start : start + ANSWERS])

    def _schemas(self) -> dict[str, StructType]:
        """Return the schema of a table with all columns that trials name, for each type by its name."""
        types = Types.numbered(self.types, NUMBERS)
        columns = dict.fromkeys([*filterfalse(is_tried, SAMPLE), *types.tried], SAMPLE["x"])
        found = self._table(types, types.fitted_columns(columns)).schema

        def renamed(name: str, tried: str) -> StructField:
            field = found[tried if is_tried(name) else name]
            return StructField(name, field.dataType, field.nullable, field.metadata)

        return {each.name: StructType([renamed(name, tried) for name in SAMPLE]) for tried, each in types.tried.items()}

    def _group(self, role: Role, trial: Trial, column_types: Sequence[ColumnType]) -> Group:
        """Return the join that tries some types."""
        types = Types.numbered(column_types, NUMBERS)
        join = types.fitted(trial.join(list(types.tried)))
        left, right, expected = (self._table(types, side) for side in (join.left, join.right, join.answer()))
        return Group(role, trial, types, partial(self._answer, join.spec, left, right), expected)

    def _answer(self, spec: Spec, left: DataFrame, right: DataFrame) -> DataFrame:
        join = spec.resolve(arrow_schema(left.schema, "left"), arrow_schema(right.schema, "right"))
        able = algorithms_on_spark(join)
        algorithm = next(each for each in self.algorithms if each in able)
        # Given, so that no job counts them; where a side is sent, a given size would be counted.
        stats = None if algorithm in SENT else SMALL
        answer: DataFrame = jn.plan(left, right, spec, algorithm=algorithm, stats=stats).execute()
        return answer

    def _table(self, types: Types, columns: Columns) -> DataFrame:
        return self._tables.of(types.columns(columns))

    def _compared(self, groups: Sequence[Group]) -> Iterator[Attempt]:
        """Run joins, and compare what they give; where one fails, each for itself."""
        try:
            found = _problems(groups)
        except Exception as error:
            if len(groups) > 1:
                yield from (attempt for group in groups for attempt in self._compared([group]))
                return
            group, column_types = groups[0], list(groups[0].types.tried.values())
            if len(column_types) > 1:
                alone = [self._group(group.role, group.trial, [each]) for each in column_types]
                yield from (attempt for each in alone for attempt in self._compared([each]))
                return
            yield group.attempt(column_types[0], repr(error))
            return
        for group, problems in zip(groups, found, strict=True):
            for each, problem in zip(group.types.tried.values(), problems, strict=True):
                yield group.attempt(each, problem)


def _check(spec: Spec, schema: StructType) -> None:
    """Refuse what is known from the schemas of two tables, as every plan does first."""
    check_types(spec.resolve(arrow_schema(schema, "left"), arrow_schema(schema, "right")), schema, schema)


def _way(trial: Trial) -> str:
    return str(trial.join().spec)


def _problems(groups: Sequence[Group]) -> list[list[str | None]]:
    """Say for each type of each group what is wrong with what its join gives."""
    frames = [(group.answer(), group.expected) for group in groups]
    texts = [
        _as_texts(frame).withColumns({"group": lit(number), "is_expected": lit(is_expected)})
        for number, pair in enumerate(frames)
        for is_expected, frame in enumerate(pair)
    ]
    rows: dict[tuple[int, int], Rows] = defaultdict(Counter)
    for row in reduce(DataFrame.union, texts).collect():
        rows[row["group"], row["is_expected"]][tuple(row["cells"])] += 1
    return [
        [
            _types_differ(name, actual, expected)
            or _rows_differ(*(_block(rows[number, side], block, pair[side], group) for side in range(2)))
            for block, name in enumerate(group.types.tried)
        ]
        for number, (group, pair) in enumerate(zip(groups, frames, strict=True))
        for actual, expected in [pair]
    ]


def _block(rows: Rows, block: int, frame: DataFrame, group: Group) -> Rows:
    """Return the rows in which one of several types decides."""
    if len(group.types.tried) == 1:
        return rows
    place = frame.columns.index("block")
    return Counter({row: count for row, count in rows.items() if row[place] == str(block)})


def _as_texts(frame: DataFrame) -> DataFrame:
    """Return rows as texts, so that those of several DataFrames go into one."""
    return frame.select(array(*map(_as_text, frame.schema)).alias("cells"))


def _as_text(field: StructField) -> Column:
    kind = field.dataType.simpleString()
    if kind == "binary":
        return expr(f"hex({field.name})")
    if kind.startswith("geo"):
        return expr(f"hex(ST_AsBinary({field.name}))")
    return expr(f"CAST({field.name} AS STRING) COLLATE UTF8_BINARY")


def _types_differ(name: str, actual: DataFrame, expected: DataFrame) -> str | None:
    """Say how columns of a type, and those named after it, are of other types than they should be, or return None."""
    types = [
        [
            (field.name, field.dataType.simpleString(), {} if is_aggregate(field.name) else field.metadata)
            for field in frame.schema
            if keeps_type(field.name) and field.name.partition("_")[0] == name
        ]
        for frame in (actual, expected)
    ]
    return None if types[0] == types[1] else f"columns {types[0]}, and not {types[1]}"


def _rows_differ(actual: Rows, expected: Rows) -> str | None:
    return None if actual == expected else f"rows {list(actual.elements())}, and not {list(expected.elements())}"
