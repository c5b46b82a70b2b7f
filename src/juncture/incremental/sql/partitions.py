"""Window functions, aggregates that views do not compile, and set operations, as queries of DuckDB over partitions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.expression import Constant, Expression, InputColumn, all_of, call
from juncture.incremental.operators.group import GroupAggregate
from juncture.incremental.operators.order import RowOrder, most_steps
from juncture.incremental.operators.partition import Extent, PartitionOrder, can_continue
from juncture.incremental.plan.nodes import ExpandNode, FilterNode, PlanNode, ProjectNode, UnionNode
from juncture.incremental.plan.stateful_nodes import GroupNode, PartitionNode
from juncture.incremental.sql.binder import ArrowTypes, Json
from juncture.incremental.sql.bound import Bound, Order, UnreadableError, called, function_name, read, read_orders, text
from juncture.incremental.sql.compile import compile_expression, stored
from juncture.incremental.sql.joins import null_safe_keys

_NUMBER, _PARTITION = "c0", "c1"
_ROW = _NUMBER, pa.int64()


class PartitionQuery:
    """Builds a query over the number of each row, other numbers, and columns of a relation."""

    def __init__(self, types: ArrowTypes, source: PlanNode, numbers: Sequence[str] = (_NUMBER, _PARTITION)) -> None:
        self._types = types
        self._source = source
        self._numbers = len(numbers)
        self._reads: dict[int, int] = {}
        self._casts: dict[int, str] = {}

    def value(self, bound: Bound) -> Expression:
        """Return a compiled expression over the columns of the relation."""
        return compile_expression(bound, self._source.types, self._types)

    def text(self, bound: Bound) -> str:
        """Return an expression as SQL."""
        for each in bound.walk():
            if each.op == "ref":
                self._casts[each.value] = each.type
        return text(bound, self._column)

    def _column(self, index: int) -> str:
        return f"CAST({self.column(index)} AS {self._casts[index]})"

    def column(self, index: int) -> str:
        """Return a column as SQL, in the type in which it is stored."""
        return f"c{self._numbers + self._reads.setdefault(index, len(self._reads))}"

    @property
    def reads(self) -> tuple[int, ...]:
        """The columns that the query reads."""
        return tuple(self._reads)

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

    def query(self, values: Sequence[tuple[str, pa.DataType]], tail: str = "") -> DuckQuery:
        """Return the query of some values and their types."""
        sql = f"SELECT {', '.join(value for value, _ in values)} FROM slot{tail}"
        inputs = (*[pa.int64()] * self._numbers, *(self._source.types[index] for index in self._reads))
        return DuckQuery(sql, inputs, tuple(kind for _, kind in values), self._types.zone)

    def called(self, part: Json) -> str:
        """Return the call of an aggregate or a window function as SQL, without its window."""
        name = _name(part)
        args = [self.text(read(each)) for each in part.get("children") or []]
        if name == "count_star":
            name, args = "count", ["*"]
        orders = read_orders(part.get("arg_orders") or (part.get("order_bys") or {}).get("orders"))
        distinct = part.get("aggregate_type") == "DISTINCT" or part.get("distinct")
        args = [f"DISTINCT {args[0]}", *args[1:]] if distinct else args
        sql = called(name, args, part)
        sql += f" ORDER BY {self.order(orders)}" if orders else ""
        sql += " IGNORE NULLS)" if part.get("ignore_nulls") else ")"
        condition = part.get("filter") or part.get("filters")
        return f"{sql} FILTER (WHERE {self.text(read(condition))})" if condition else sql

    def window(self, part: Json) -> str:
        """Return a window function as SQL. Where only the order of rows matters, their numbers break ties."""
        orders = self.order(read_orders(part.get("orders")))
        if orders and _is_by_rows(part):
            orders += f", {_NUMBER}"
        start, start_unit = self._edge(part["start"], part.get("start_expr"))
        end, end_unit = self._edge(part["end"], part.get("end_expr"))
        exclude = part.get("exclude_clause", "NO_OTHER")
        window = " ".join(
            [
                f"PARTITION BY {_PARTITION}",
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
        value = self.text(_offset(part, unit)) if part else ""
        return words.replace("_", " ").replace("EXPR", value), unit


def _offset(part: Json, unit: str) -> Bound:
    """Return the offset of an end of a frame."""
    bound = read(part)
    if unit == "RANGE":
        # The plan has the end itself: the value of the order less or plus an offset.
        while bound.op == "cast" and bound.args[0].op in ("+", "-"):
            bound = bound.args[0]
        bound = bound.args[1] if bound.op in ("+", "-") and len(bound.args) == 2 else bound
    return bound


# What a window function depends on

_OF_ORDER = ("row_number", "lag", "lead", "ntile")
_RANKS = ("row_number", "rank", "dense_rank", "rank_dense")
_OF_PARTITION = ("ntile", "percent_rank", "cume_dist", "fill")
_CONTINUED = {"min": "least", "max": "greatest"} | dict.fromkeys((*_RANKS, "count", "count_star", "sum"), "add")
_UNLIMITED = Extent(is_unlimited=True)


def _name(part: Json) -> str:
    return function_name(part) or str(part["type"]).removeprefix("WINDOW_").lower()


def _is_by_rows(part: Json) -> bool:
    """Return whether a window function depends on the order of rows, and not on which of them are peers."""
    is_by_rows = part["start"].endswith("_ROWS") or part["end"].endswith("_ROWS")
    is_ranked = _name(part) in ("rank", "dense_rank", "rank_dense", *_OF_PARTITION[1:])
    return _name(part) in _OF_ORDER or (
        is_by_rows and not is_ranked and part.get("exclude_clause", "NO_OTHER") == "NO_OTHER"
    )


def _constant(bound: Bound) -> Bound:
    """Return what an expression casts. Its value is None if that is not a constant."""
    while bound.op == "cast":
        (bound,) = bound.args
    return bound if bound.op == "const" else Bound("const", bound.info)


def _extent(part: Json, side: str, of: pa.DataType) -> Extent:
    """Return how far a frame reaches to one side."""
    words, _, unit = part[side].rpartition("_")
    outer, inner = ("PRECEDING", "FOLLOWING") if side == "start" else ("FOLLOWING", "PRECEDING")
    if words == "CURRENT_ROW" or words == f"EXPR_{inner}":
        return Extent()
    if words != f"EXPR_{outer}":
        return _UNLIMITED
    offset = _constant(_offset(part[f"{side}_expr"], unit))
    if unit == "ROWS" and isinstance(offset.value, int):
        return Extent(rows=offset.value)
    if unit == "GROUPS" and isinstance(offset.value, int):
        return Extent(peers=offset.value)
    scale = offset.info["type_info"]["scale"] if offset.info["id"] == "DECIMAL" else 0
    steps = most_steps(offset.value, scale, of) if unit == "RANGE" else None
    return _UNLIMITED if steps is None else Extent(steps=steps)


def _dependence(part: Json, of: pa.DataType, result: pa.DataType) -> tuple[Extent, Extent, str]:
    """Return how far a window function reads before and after a row, and how its running value continues."""
    name = _name(part)
    if name in _OF_PARTITION or (part.get("arg_orders") and part["type"] != "WINDOW_AGGREGATE"):
        return _UNLIMITED, _UNLIMITED, ""
    if name in _RANKS:
        return Extent(), Extent(), "add"
    if name in ("lag", "lead"):
        offset = _constant(read(part["children"][1])).value if len(part["children"]) > 1 else 1
        if not isinstance(offset, int) or part.get("ignore_nulls"):
            return _UNLIMITED, _UNLIMITED, ""
        before = offset if name == "lag" else -offset
        return Extent(rows=max(before, 0)), Extent(rows=max(-before, 0)), ""
    preceding, following = (_extent(part, side, of) for side in ("start", "end"))
    is_plain = not part.get("distinct") and part.get("exclude_clause", "NO_OTHER") == "NO_OTHER"
    is_running = part["start"] == "UNBOUNDED_PRECEDING" and not part["end"].startswith("EXPR_PRECEDING")
    function = _CONTINUED.get(name, "") if part["type"] == "WINDOW_AGGREGATE" and is_running and is_plain else ""
    return (Extent(), following, function) if can_continue(function, result) else (preceding, following, "")


def _first_order(orders: Sequence[Order], keys: Sequence[Expression], query: PartitionQuery) -> RowOrder | None:
    """Return the first sort key that differs within a partition; None if none does, or its type cannot be stored."""
    for each in orders:
        if each.value.info["id"] in ("HUGEINT", "UHUGEINT", "INTERVAL") and each.value.op != "ref":
            return RowOrder(Constant(pa.int64(), 0), False, False)
        value = query.value(each.value)
        if value not in keys:
            return RowOrder(value, each.descending, each.nulls_first)
    return None


def _order_of(
    parts: Sequence[Json],
    results: Sequence[pa.DataType],
    keys: Sequence[Expression],
    query: PartitionQuery,
) -> PartitionOrder | None:
    """Return the order of window functions with the same sort keys; None if all rows of a partition matter."""
    by = _first_order(read_orders(parts[0].get("orders")), keys, query)
    if by is None:
        return None
    depend = [_dependence(part, by.value.type, result) for part, result in zip(parts, results, strict=True)]
    preceding, following = Extent(), Extent()
    for before, after, _ in depend:
        preceding, following = preceding | before, following | after
    if preceding.is_unlimited and following.is_unlimited:
        return None
    ranks, dense = (
        frozenset(index for index, each in enumerate(parts) if _name(each) in names)
        for names in (("row_number", "rank"), ("dense_rank", "rank_dense"))
    )
    return PartitionOrder(by, preceding, following, tuple(each for *_, each in depend), ranks, dense)


def windows(node: PlanNode, parts: Sequence[Json], types: ArrowTypes) -> PlanNode:
    """Return a relation with a column for each window function."""
    width, alike = len(node.types), dict[tuple[tuple[Expression, ...], str], list[int]]()
    query = PartitionQuery(types, node)
    for number, part in enumerate(parts):
        keys = tuple(dict.fromkeys(query.value(read(each)) for each in part.get("partitions") or []))
        order = query.order(read_orders(part.get("orders")))
        alike.setdefault((keys, order), []).append(number)
    result, indices = node, dict[int, int]()
    for (keys, _), numbers in alike.items():
        indices |= {number: len(result.types) + index for index, number in enumerate(numbers)}
        result = _with_windows(result, keys, [parts[number] for number in numbers], types)
    return result.select([*range(width), *(indices[number] for number in range(len(parts)))])


def _with_windows(node: PlanNode, keys: Sequence[Expression], parts: Sequence[Json], types: ArrowTypes) -> PlanNode:
    """Return a relation with a column for each window function of one order."""
    query = PartitionQuery(types, node)
    values = [query.result(each, query.window(each)) for each in parts]
    duck_query = query.query([_ROW, *values])
    safe = null_safe_keys(keys, node)
    order = _order_of(parts, duck_query.outputs[1:], keys, query)
    return PartitionNode(node, query.reads, duck_query, safe, safe, adds_columns=True, order=order)


def groups(node: PlanNode, keys: Sequence[Json], parts: Sequence[Json], types: ArrowTypes) -> PlanNode:
    """Return groups with any aggregates of DuckDB."""
    query = PartitionQuery(types, node)
    values = [query.result(each, query.text(read(each))) for each in keys]
    values += [query.result(each, query.called(each)) for each in parts]
    by = ", ".join(str(index + 1) for index in range(len(keys)))
    duck_query = query.query(values, f" GROUP BY {by}" if keys else "")
    inner = [query.value(read(each)) for each in keys]
    outer = [InputColumn(kind, index) for index, kind in enumerate(duck_query.outputs[: len(keys)])]
    rows_by, results_by = null_safe_keys(inner, None), null_safe_keys(outer, None)
    return PartitionNode(node, query.reads, duck_query, rows_by, results_by, adds_columns=False)


def first_of_each(node: PlanNode, on: Sequence[Expression], orders: Sequence[Order], types: ArrowTypes) -> PlanNode:
    """Return the first row of each distinct value, in an order and then by all columns."""
    query = PartitionQuery(types, node)
    keys = [query.order(orders)] if orders else []
    keys += [query.column(index) for index in range(len(node.types))]
    sql = f"row_number() OVER (PARTITION BY {_PARTITION} ORDER BY {', '.join(keys)})"
    duck_query = query.query([_ROW, (sql, pa.int64())])
    safe = null_safe_keys(on, node)
    by = _first_order(orders, on, query) or RowOrder(node.every_column[0], False, False)
    order = PartitionOrder(by, Extent(), Extent(), ("add",), limit=(0, 1))
    marked = PartitionNode(node, query.reads, duck_query, safe, safe, adds_columns=True, order=order)
    return marked.select(range(len(node.types)))


def unnested(node: PlanNode, parts: Sequence[Json], types: ArrowTypes) -> PlanNode:
    """Return a row for each value of some lists."""
    query = PartitionQuery(types, node, (_NUMBER,))
    values = [query.result(each, f"unnest({query.text(read(each['child']))})") for each in parts]
    return ExpandNode(node, query.reads, query.query([_ROW, *values]))


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
        query = PartitionQuery(types, positive, (_NUMBER,))
        repeated = query.query([_ROW, (f"unnest(range({query.column(len(keys))}))", number)])
        return ExpandNode(positive, query.reads, repeated).select(range(len(keys)))
    has_left, has_right = (call("greater", each, zero) for each in (lefts, rights))
    condition = all_of([has_left, call("not", has_right) if is_except else has_right])
    return FilterNode(grouped, condition).select(range(len(keys)))
