"""Window functions, aggregates that views do not compile, and set operations, as queries of DuckDB over partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.expression import Constant, Expression, InputColumn, all_of, call
from juncture.incremental.operators.group import GroupAggregate
from juncture.incremental.plan.nodes import ExpandNode, FilterNode, PlanNode, ProjectNode, UnionNode
from juncture.incremental.plan.stateful_nodes import GroupNode, PartitionNode
from juncture.incremental.sql.binder import ArrowTypes, Json
from juncture.incremental.sql.bound import (
    Bound,
    Order,
    UnreadableError,
    called,
    function_name,
    read,
    read_order,
    text,
)
from juncture.incremental.sql.compile import stored
from juncture.incremental.sql.joins import null_safe_keys

Compile = Callable[[Bound], Expression]


class PartitionQuery:
    """Builds a query over the columns of a relation."""

    def __init__(self, types: ArrowTypes, source: PlanNode) -> None:
        self._types = types
        self._source = source
        self._reads: dict[int, int] = {}
        self._casts: dict[int, str] = {}

    def text(self, bound: Bound) -> str:
        """Return an expression as SQL."""
        for each in bound.walk():
            if each.op == "ref":
                self._casts[each.value] = each.type
        return text(bound, self._column)

    def _column(self, place: int) -> str:
        number = self._reads.setdefault(place, len(self._reads))
        return f"CAST(c{number} AS {self._casts[place]})"

    def column(self, place: int) -> str:
        """Return a column as SQL, in the type in which it is stored."""
        return f"c{self._reads.setdefault(place, len(self._reads))}"

    @property
    def reads(self) -> tuple[int, ...]:
        """The columns that the query reads."""
        return tuple(self._reads)

    @property
    def number(self) -> str:
        """The column of row numbers, once all other columns are read."""
        return f"c{len(self._reads)}"

    def order(self, orders: Sequence[Order]) -> str:
        """Return sort keys as SQL."""
        return ", ".join(
            f"{self.text(each.value)} {'DESC' if each.descending else 'ASC'} "
            f"NULLS {'FIRST' if each.nulls_first else 'LAST'}"
            for each in orders
        )

    def result(self, part: Json, value: str) -> tuple[str, pa.DataType]:
        """Return a value in the type in which views store it, and this type."""
        info = part["return_type"]
        bound = Bound("const", info)
        target = self._types.of(info)
        if target is None:
            raise UnreadableError(f"values of type {bound.type}", part)
        return stored(value, info["id"], bound.type), target

    def query(self, sql: str, outputs: Sequence[pa.DataType]) -> DuckQuery:
        """Return the query."""
        inputs = (*(self._source.types[place] for place in self._reads), pa.int64())
        return DuckQuery(sql, inputs, tuple(outputs), self._types.zone)

    def called(self, part: Json) -> str:
        """Return the call of an aggregate or a window function as SQL, without its window."""
        name = function_name(part) or part["type"].removeprefix("WINDOW_").lower()
        args = [self.text(read(each)) for each in part.get("children") or []]
        if name == "count_star":
            name, args = "count", ["*"]
        orders = part.get("arg_orders") or (part.get("order_bys") or {}).get("orders") or []
        distinct = part.get("aggregate_type") == "DISTINCT" or part.get("distinct")
        args = [f"DISTINCT {args[0]}", *args[1:]] if distinct else args
        sql = called(name, args, part)
        sql += f" ORDER BY {self.order([read_order(each) for each in orders])}" if orders else ""
        sql += " IGNORE NULLS)" if part.get("ignore_nulls") else ")"
        condition = part.get("filter") or part.get("filters")
        return f"{sql} FILTER (WHERE {self.text(read(condition))})" if condition else sql

    def window(self, part: Json) -> str:
        """Return a window function as SQL."""
        partitions = ", ".join(self.text(read(each)) for each in part.get("partitions") or [])
        orders = self.order([read_order(each) for each in part.get("orders") or []])
        start, start_unit = self._edge(part["start"], part.get("start_expr"))
        end, end_unit = self._edge(part["end"], part.get("end_expr"))
        exclude = part.get("exclude_clause", "NO_OTHER")
        window = " ".join(
            [
                f"PARTITION BY {partitions}" if partitions else "",
                f"ORDER BY {orders}" if orders else "",
                f"{start_unit or end_unit or 'RANGE'} BETWEEN {start} AND {end}",
                "" if exclude == "NO_OTHER" else f"EXCLUDE {exclude.replace('_', ' ')}",
            ]
        )
        return f"{self.called(part)} OVER ({window})"

    def _edge(self, kind: str, part: Json | None) -> tuple[str, str]:
        """Return an end of a frame as SQL, and its unit."""
        words, _, unit = kind.rpartition("_")
        if unit not in ("ROWS", "RANGE", "GROUPS"):
            return kind.replace("_", " "), ""
        value = ""
        if part:
            bound = read(part)
            if unit == "RANGE":
                # The plan has the end itself: the value of the order less or plus an offset.
                while bound.op == "cast" and bound.args[0].op in ("+", "-"):
                    bound = bound.args[0]
                bound = bound.args[1] if bound.op in ("+", "-") and len(bound.args) == 2 else bound
            value = self.text(bound)
        return words.replace("_", " ").replace("EXPR", value), unit


def windows(node: PlanNode, parts: Sequence[Json], types: ArrowTypes, compile_bound: Compile) -> PlanNode:
    """Return a relation with a column for each window function."""
    width, by_keys = len(node.types), dict[tuple[Expression, ...], list[int]]()
    for number, part in enumerate(parts):
        keys = tuple(dict.fromkeys(compile_bound(read(each)) for each in part.get("partitions") or []))
        by_keys.setdefault(keys, []).append(number)
    result, places = node, dict[int, int]()
    for keys, numbers in by_keys.items():
        query = PartitionQuery(types, result)
        values = [query.result(parts[number], query.window(parts[number])) for number in numbers]
        shown = ", ".join(value for value, _ in values)
        sql = f"SELECT {query.number}, {shown} FROM slot"
        made = query.query(sql, [pa.int64(), *(kind for _, kind in values)])
        safe = null_safe_keys(keys, result)
        places |= {number: len(result.types) + place for place, number in enumerate(numbers)}
        result = PartitionNode(result, query.reads, made, safe, safe, adds_columns=True)
    return result.select([*range(width), *(places[number] for number in range(len(parts)))])


def groups(
    node: PlanNode,
    keys: Sequence[Json],
    parts: Sequence[Json],
    types: ArrowTypes,
    compile_bound: Compile,
) -> PlanNode:
    """Return groups with any aggregates of DuckDB."""
    query = PartitionQuery(types, node)
    values = [query.result(each, query.text(read(each))) for each in keys]
    values += [query.result(each, query.called(each)) for each in parts]
    by = ", ".join(str(place + 1) for place in range(len(keys)))
    sql = f"SELECT {', '.join(value for value, _ in values)} FROM slot{f' GROUP BY {by}' if keys else ''}"
    made = query.query(sql, [kind for _, kind in values])
    inner = [compile_bound(read(each)) for each in keys]
    outer = [InputColumn(kind, place) for place, (_, kind) in enumerate(values[: len(keys)])]
    rows_by, results_by = null_safe_keys(inner, None), null_safe_keys(outer, None)
    return PartitionNode(node, query.reads, made, rows_by, results_by, adds_columns=False)


def first_of_each(
    node: PlanNode, on: Sequence[Expression], parts: Sequence[Json], orders: Sequence[Order], types: ArrowTypes
) -> PlanNode:
    """Return the first row of each distinct value, in an order and then by all columns."""
    query = PartitionQuery(types, node)
    by = ", ".join(query.text(read(each)) for each in parts)
    keys = [query.order(orders)] if orders else []
    keys += [query.column(place) for place in range(len(node.types))]
    sql = f"row_number() OVER (PARTITION BY {by} ORDER BY {', '.join(keys)})"
    made = query.query(f"SELECT {query.number}, {sql} = 1 FROM slot", [pa.int64(), pa.bool_()])
    safe = null_safe_keys(on, node)
    return PartitionNode(node, query.reads, made, safe, safe, adds_columns=True)


def unnested(node: PlanNode, parts: Sequence[Json], types: ArrowTypes) -> PlanNode:
    """Return a row for each value of some lists."""
    query = PartitionQuery(types, node)
    values = [query.result(each, f"unnest({query.text(read(each['child']))})") for each in parts]
    sql = f"SELECT {query.number}, {', '.join(value for value, _ in values)} FROM slot"
    return ExpandNode(node, query.reads, query.query(sql, [pa.int64(), *(kind for _, kind in values)]))


def difference(left: PlanNode, right: PlanNode, types: ArrowTypes, *, is_except: bool, is_all: bool) -> PlanNode:
    """Return the rows of EXCEPT or INTERSECT, from the numbers of equal rows on both sides."""
    number = pa.int64()
    one, zero = Constant(number, 1), Constant(number, 0)
    numbered = ProjectNode(left, (*left.every_column, one, zero)), ProjectNode(right, (*right.every_column, zero, one))
    both = UnionNode(numbered)
    *keys, of_left, of_right = both.every_column
    sums = tuple(GroupAggregate("sum", each, False, number) for each in (of_left, of_right))
    grouped = GroupNode(both, tuple(keys), sums)
    *columns, lefts, rights = grouped.every_column
    if is_all:
        count = call("subtract", lefts, rights) if is_except else call("least", lefts, rights)
        counted = ProjectNode(grouped, (*columns, count))
        positive = FilterNode(counted, call("greater", counted.every_column[-1], zero))
        return repeated(positive, len(keys), types).select(range(len(keys)))
    has_left, has_right = (call("greater", each, zero) for each in (lefts, rights))
    condition = all_of([has_left, call("not", has_right) if is_except else has_right])
    return FilterNode(grouped, condition).select(range(len(keys)))


def repeated(node: PlanNode, count: int, types: ArrowTypes) -> PlanNode:
    """Return each row as often as one of its columns says."""
    query = PartitionQuery(types, node)
    sql = f"unnest(range({query.column(count)}))"
    made = query.query(f"SELECT {query.number}, {sql} FROM slot", [pa.int64(), pa.int64()])
    return ExpandNode(node, query.reads, made)
