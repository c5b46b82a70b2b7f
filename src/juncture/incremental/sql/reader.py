"""Reading of DuckDB's bound plan into the plan of a view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import pyarrow as pa
import pyarrow.types as pat

from juncture.incremental.expressions.expression import (
    FALSE,
    TRUE,
    Constant,
    Expression,
    InputColumn,
    all_of,
    call,
    shifted,
)
from juncture.incremental.operators.group import AggregateFunction, GroupAggregate
from juncture.incremental.operators.order import RowOrder, is_ordered
from juncture.incremental.operators.top import SortKey
from juncture.incremental.plan.nodes import EmptyNode, FilterNode, PlanNode, ProjectNode, ScanNode, UnionNode
from juncture.incremental.plan.stateful_nodes import AsofMatch, GroupNode, JoinHow, JoinNode, TopNode
from juncture.incremental.sql.binder import (
    ArrowTypes,
    Json,
    Query,
    bound,
    session_zone,
    unsupported,
    with_conditions_joined,
)
from juncture.incremental.sql.bound import COMPARISONS, Order, UnreadableError, function_name, read, read_orders
from juncture.incremental.sql.compile import are_numbers, compile_expression
from juncture.incremental.sql.joins import (
    Comparison,
    Sides,
    anti,
    compared_in,
    is_two_valued,
    mark,
    outer,
    semi,
    single,
)
from juncture.incremental.sql.partitions import difference, first_of_each, groups, unnested, windows

_HOW: Mapping[str, JoinHow] = {"INNER": "inner", "LEFT": "left", "RIGHT": "right", "OUTER": "full", "FULL": "full"}
_AGGREGATES: Mapping[str, AggregateFunction] = {
    "count": "count", "count_star": "count", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max",
    # Any value will do. The least one does not depend on the order of changes.
    "first": "min", "last": "min", "any_value": "min", "arbitrary": "min",
    "arg_min": "first", "min_by": "first", "arg_max": "first", "max_by": "first",
    "bool_and": "bool_and", "bool_or": "bool_or", "count_if": "sum", "countif": "sum",
    "stddev": "stddev_samp", "stddev_samp": "stddev_samp", "stddev_pop": "stddev_pop",
    "variance": "var_samp", "var_samp": "var_samp", "var_pop": "var_pop",
}  # fmt: skip
_OF_ANY_NUMBER = ("min", "max", "first", "bool_and", "bool_or")
"""Aggregates that are the same for distinct values."""
_SAME = {"=": False, "IS NOT DISTINCT FROM": True}


@dataclass(frozen=True)
class ViewQuery:
    """A plan, its column names, and the order in which `View.result` returns rows. Only that reads unnamed columns."""

    node: PlanNode
    names: tuple[str, ...]
    order: tuple[SortKey, ...] = ()


def read_query(
    sql: str,
    sources: Mapping[str, pa.Schema],
    *,
    relations: Mapping[str, PlanNode] = MappingProxyType({}),
    orders: Mapping[str, str] = MappingProxyType({}),
    zone: str | None = None,
) -> ViewQuery:
    """Return the plan of a query; raises `SpecError`. ``relations`` replace scans, and ``orders`` are columns."""
    query = Query(sql, with_conditions_joined(sql), sources, zone or session_zone(sources))
    bound_query = bound(query)
    try:
        node, order = _PlanReader(query, relations, orders).root(bound_query.plan)
    except UnreadableError as error:
        raise unsupported(query, error.what, error.part, error.instead) from None
    return ViewQuery(node, bound_query.names, order)


class _PlanReader:
    def __init__(self, query: Query, relations: Mapping[str, PlanNode], orders: Mapping[str, str]) -> None:
        self._orders = orders
        self._relations = {name.lower(): relation for name, relation in relations.items()}
        self._sources = {name.lower(): (name, schema) for name, schema in query.tables.items()}
        self._types = ArrowTypes(query.zone)
        self._tables: dict[int, PlanNode] = {}

    def root(self, part: Json) -> tuple[PlanNode, tuple[SortKey, ...]]:
        """Return a plan, and the order of its result. Columns that only the order reads follow the selected ones."""
        kind = part["type"]
        if kind == "LOGICAL_PROJECTION" and part["children"][0]["type"] in ("LOGICAL_ORDER_BY", "LOGICAL_LIMIT"):
            node, order = self.root(part["children"][0])
            return _ordered(node, [self.expression(each, node) for each in part["expressions"]], order)
        if kind in ("LOGICAL_ORDER_BY", "LOGICAL_LIMIT"):
            node, order, output = self._in_order(part)
            return _ordered(node, [node.every_column[index] for index in output], order)
        return self.root(self._query_of_table(part)) if kind == "LOGICAL_MATERIALIZED_CTE" else (self.node(part), ())

    def node(self, part: Json) -> PlanNode:
        """Return the node for a part of a plan; raises `UnreadableError`."""
        kind = part["type"].removeprefix("LOGICAL_")
        if kind not in _NODES:
            raise UnreadableError(_NAMES.get(kind, f"the operator {kind.replace('_', ' ')}"))
        return _NODES[kind](self, part)

    def inputs(self, part: Json) -> list[PlanNode]:
        return [self.node(each) for each in part["children"]]

    def expression(self, part: Json, node: PlanNode) -> Expression:
        """Return an expression over the columns of a node."""
        self._check(part)
        return compile_expression(read(part), node.types, self._types)

    def _check(self, part: Json) -> None:
        is_row_number = part["expression_class"] == "BOUND_REF" and part.get("alias") == "rowid"
        if is_row_number and not any("rowid" in schema.names for _, schema in self._sources.values()):
            raise UnreadableError("row numbers (rowid)")

    # Inputs

    def get(self, part: Json) -> PlanNode:
        name = part.get("function_data", {}).get("table") if function_name(part) == "seq_scan" else None
        if name is None or name.lower() not in self._sources:
            raise UnreadableError(f"the table function {function_name(part)}")
        if part.get("extra_info", {}).get("sample_options"):
            raise UnreadableError("samples")
        _, schema = self._sources[name.lower()]
        kinds = [self._types.of(each) for each in part["returned_types"]]
        names_and_types = [(each, kind) for each, kind in zip(part["names"], kinds, strict=True) if kind is not None]
        fields = tuple((each, _scan_type(kind, schema.field(each).type)) for each, kind in names_and_types)
        scan: PlanNode = ScanNode(name.lower(), fields, self._orders.get(name.lower()))
        if name.lower() in self._relations:
            scan = in_types(self._relations[name.lower()], schema.names, fields)
        indices = {each: index for index, (each, _) in enumerate(fields)}
        output: list[Expression] = []
        for each in part["column_indexes"]:
            if each["index"] >= len(part["names"]):
                output.append(Constant(pa.int64(), 0))
                continue
            column = part["names"][each["index"]]
            if column not in indices:
                raise UnreadableError(f"column {column!r}, whose type is {schema.field(column).type}")
            if each["child_indexes"]:
                raise UnreadableError(f"parts of column {column!r}")
            output.append(InputColumn(fields[indices[column]][1], indices[column]))
        return ProjectNode(scan, tuple(output))

    def one_row(self, _part: Json) -> PlanNode:
        """Return the relation of one row without meaning, of SELECT without FROM."""
        empty = EmptyNode((pa.int64(),))
        return GroupNode(empty, (), (GroupAggregate("count", None, False, pa.int64()),))

    def empty(self, part: Json) -> PlanNode:
        return EmptyNode(tuple(self._type(each) for each in part["return_types"]))

    def values(self, part: Json) -> PlanNode:
        (source,) = self.inputs(part)
        rows = [[self.expression(each, source) for each in row] for row in part["expressions"]]
        return UnionNode(tuple(ProjectNode(source, tuple(row)) for row in rows))

    def _type(self, info: Json) -> pa.DataType:
        kind = self._types.of(info)
        if kind is None:
            raise UnreadableError(f"values of type {info['id']}")
        return kind

    # Relations

    def project(self, part: Json) -> PlanNode:
        (source,) = self.inputs(part)
        return ProjectNode(source, tuple(self.expression(each, source) for each in part["expressions"]))

    def filter(self, part: Json) -> PlanNode:
        source, applied = self._where_marked(part)
        condition = all_of([self.expression(each, source) for each in part["expressions"] if each is not applied])
        return _chosen(FilterNode(source, condition), part.get("projection_map"))

    def group(self, part: Json) -> PlanNode:
        """Return groups, of each grouping set."""
        (source,) = self.inputs(part)
        keys, count = part["groups"], len(part["groups"])
        sets = [sorted(each) for each in part.get("grouping_sets") or []] or [list(range(count))]
        functions = part.get("grouping_functions") or []
        if sets == [list(range(count))] and not functions:
            return self._grouped(source, keys, part["expressions"])
        nodes = []
        for key_numbers in sets:
            node = self._grouped(source, [keys[index] for index in key_numbers], part["expressions"])
            at = {index: number for number, index in enumerate(key_numbers)}
            values = [
                node.every_column[at[index]] if index in at else Constant(self._type(key["return_type"]), None)
                for index, key in enumerate(keys)
            ]
            aggregates = node.every_column[len(key_numbers) : len(key_numbers) + len(part["expressions"])]
            bits = [sum((index not in at) << bit for bit, index in enumerate(reversed(each))) for each in functions]
            marks = [Constant(pa.int64(), each) for each in bits]
            nodes.append(ProjectNode(node, (*values, *aggregates, *marks)))
        return nodes[0] if len(nodes) == 1 else UnionNode(tuple(nodes))

    def _grouped(self, source: PlanNode, keys: Sequence[Json], parts: Sequence[Json]) -> PlanNode:
        """Return groups: compiled, or by DuckDB if one of the aggregates is not compiled."""
        compiled = [self._aggregate(each, source) for each in parts]
        if any(each is None for each in compiled):
            return groups(source, keys, parts, self._types)
        aggregates = tuple(each for each in compiled if each is not None)
        if not keys and not aggregates:
            aggregates = (GroupAggregate("count", None, False, pa.int64()),)
        return GroupNode(source, tuple(self.expression(each, source) for each in keys), aggregates)

    def _aggregate(self, part: Json, source: PlanNode) -> GroupAggregate | None:
        """Return an aggregate; None for those that are not compiled."""
        name, children = function_name(part), part["children"]
        function = _AGGREGATES.get(name)
        order: tuple[RowOrder, ...] = ()
        if function is None or len(children) > 1 + (function == "first"):
            return None
        value = self.expression(children[0], source) if children else None
        if name in ("count_if", "countif"):
            value = call("cast", value, option=pa.int64()) if value is not None else None
        orders = read_orders((part.get("order_bys") or {}).get("orders"))
        if function == "first" and value is not None:
            by = self.expression(children[1], source)
            order = (RowOrder(by, "max" in name, False),)
            value = call("case", call("is_null", by), Constant(value.type, None), value, data_type=value.type)
        elif function == "min" and name != "min" and orders:
            order = tuple(self._row_order(each, source, is_reverse=name == "last") for each in orders)
        if order and (value is None or not all(is_ordered(each.value.type) for each in order)):
            return None
        keeps_nulls = bool(order) and name in ("first", "last")
        if keeps_nulls and part.get("filter"):
            return None
        if part.get("filter"):
            condition = self.expression(part["filter"], source)
            chosen = value if value is not None else Constant(pa.int64(), 1)
            value = call("case", condition, chosen, Constant(chosen.type, None), data_type=chosen.type)
        target = self._type(part["return_type"])
        if function in ("sum", "avg") and value is not None and not are_numbers([value.type]):
            return None
        distinct = part["aggregate_type"] == "DISTINCT" and function not in _OF_ANY_NUMBER
        return GroupAggregate("first" if order else function, value, distinct, target, order, keeps_nulls)

    def _row_order(self, order: Order, source: PlanNode, *, is_reverse: bool) -> RowOrder:
        value = compile_expression(order.value, source.types, self._types)
        return RowOrder(value, order.descending != is_reverse, order.nulls_first != is_reverse)

    def windows(self, part: Json) -> PlanNode:
        (source,) = self.inputs(part)
        return windows(source, part["expressions"], self._types)

    def unnest(self, part: Json) -> PlanNode:
        (source,) = self.inputs(part)
        return unnested(source, part["expressions"], self._types)

    def difference(self, part: Json) -> PlanNode:
        left, right = self.inputs(part)
        is_except = part["type"] == "LOGICAL_EXCEPT"
        return difference(left, right, self._types, is_except=is_except, is_all=bool(part.get("setop_all")))

    def distinct(self, part: Json) -> PlanNode:
        (source,) = self.inputs(part)
        if part["distinct_type"] != "DISTINCT":
            targets = part["distinct_targets"]
            orders = read_orders((part.get("order_by") or {}).get("orders"))
            on = [self.expression(each, source) for each in targets]
            return first_of_each(source, on, orders, self._types)
        return GroupNode(source, source.every_column, ())

    def union(self, part: Json) -> PlanNode:
        united = UnionNode(tuple(self.inputs(part)))
        return united if part.get("setop_all") else GroupNode(united, united.every_column, ())

    def in_order(self, part: Json) -> PlanNode:
        """Return the rows of ORDER BY or LIMIT in a subquery, where their order has no meaning."""
        node, _, output = self._in_order(part)
        return node.select(output)

    def _in_order(self, part: Json) -> tuple[PlanNode, tuple[SortKey, ...], list[int]]:
        """Return rows with all columns that their order reads, the order, and the columns to return."""
        return self._sorted(part) if part["type"] == "LOGICAL_ORDER_BY" else self._limited(part)

    def _sorted(self, part: Json) -> tuple[PlanNode, tuple[SortKey, ...], list[int]]:
        (source,) = self.inputs(part)
        node, keys = self._with_order(source, read_orders(part["orders"]))
        output = part.get("projections") or part.get("projection_map")
        return node, keys, list(output or range(len(source.types)))

    def _with_order(self, node: PlanNode, orders: Sequence[Order]) -> tuple[PlanNode, tuple[SortKey, ...]]:
        values = [compile_expression(each.value, node.types, self._types) for each in orders]
        output = dict.fromkeys([*node.every_column, *values])
        at = {value: index for index, value in enumerate(output)}
        keys = tuple(
            SortKey(at[value], each.descending, each.nulls_first) for value, each in zip(values, orders, strict=True)
        )
        return (node if len(output) == len(node.types) else ProjectNode(node, tuple(output))), keys

    def _limited(self, part: Json) -> tuple[PlanNode, tuple[SortKey, ...], list[int]]:
        (below,) = part["children"]
        if below["type"] == "LOGICAL_ORDER_BY":
            node, order, output = self._sorted(below)
        else:
            node, order = self.node(below), ()
            output = list(range(len(node.types)))
        counts = {}
        for name in ("limit", "offset"):
            value = part.get(f"{name}_val") or {"type": "UNSET"}
            if value["type"] not in ("UNSET", "CONSTANT_VALUE"):
                kind = "a percentage" if "PERCENT" in value["type"] else "an expression or subquery"
                raise UnreadableError(f"{name.upper()} of {kind}, only of a number of rows")
            counts[name] = value["constant_integer"] if value["type"] == "CONSTANT_VALUE" else None
        return TopNode(node, order, counts["limit"], counts["offset"] or 0), order, output

    def shared(self, part: Json) -> PlanNode:
        """Return a query that reads a common table."""
        return self.node(self._query_of_table(part))

    def _query_of_table(self, part: Json) -> Json:
        """Read a common table, and return the query that reads it."""
        table, query = part["children"]
        self._tables[part["table_index"]] = self.node(table)
        return dict(query)

    def shared_table(self, part: Json) -> PlanNode:
        return self._tables[part["cte_index"]]

    # Joins

    def cross(self, part: Json) -> PlanNode:
        left, right = self.inputs(part)
        return JoinNode(left, right, "inner", TRUE)

    def join(self, part: Json) -> PlanNode:
        how, sides = part["join_type"], self._sides(part)
        if how in ("RIGHT_SEMI", "RIGHT_ANTI"):
            raise UnreadableError(f"{how} joins")
        if how in ("SEMI", "ANTI"):
            return _chosen(semi(sides) if how == "SEMI" else anti(sides), part.get("left_projection_map"))
        if how == "MARK":
            return self._shown_with_mark(mark(sides), part)
        if how == "SINGLE":
            node = single(sides)
            if node is None:
                raise UnreadableError("scalar subqueries that are correlated by other conditions than equalities")
        elif how == "INNER":
            node = JoinNode(sides.left, sides.right, "inner", sides.condition)
        elif how in _HOW:
            node = outer(sides, _HOW[how])
        else:
            raise UnreadableError(f"{how} JOIN")
        return _shown_of_both(node, len(sides.left.types), part)

    def _sides(self, part: Json) -> Sides:
        """Return the sides and conditions of a join."""
        left, right = self.inputs(part)
        both = JoinNode(left, right, "inner", TRUE)
        comparisons, rest = [], []
        for each in part.get("conditions") or []:
            sign = COMPARISONS.get(each.get("comparison"))
            if sign is None:
                rest.append(self.expression(each["left"], both))
            else:
                one, other = self.expression(each["left"], left), self.expression(each["right"], right)
                comparisons.append(Comparison(sign, one, other))
        rest += [self.expression(part[name], both) for name in ("condition", "predicate") if part.get(name)]
        return Sides(left, right, tuple(comparisons), tuple(rest))

    def _shown_with_mark(self, node: PlanNode, part: Json) -> PlanNode:
        output = part.get("left_projection_map")
        return _chosen(node, [*output, len(node.types) - 1]) if output else node

    def _where_marked(self, part: Json) -> tuple[PlanNode, Json | None]:
        """Return the input of a filter, and what is applied already: ``x IN (…)`` keeps rows with a true mark."""
        (below,) = part["children"]
        if below["type"] == "LOGICAL_COMPARISON_JOIN" and below["join_type"] == "MARK":
            sides = self._sides(below)
            index = len(below.get("left_projection_map") or sides.left.types)
            for each in part["expressions"]:
                bound = read(each)
                inner = bound.args[0] if bound.op == "not" else bound
                if inner.op != "ref" or inner.value != index or (bound.op == "not" and not is_two_valued(sides)):
                    continue
                node = anti(sides) if bound.op == "not" else semi(sides)
                marked = ProjectNode(node, (*node.every_column, FALSE if bound.op == "not" else TRUE))
                return self._shown_with_mark(marked, below), each
        return self.node(below), None

    def asof(self, part: Json) -> PlanNode:
        left, right = self.inputs(part)
        how = _HOW.get(part["join_type"])
        if how not in ("inner", "left"):
            raise UnreadableError(f"an ASOF {part['join_type']} JOIN")
        equal, bounds = [], []
        for each in part["conditions"]:
            sign = COMPARISONS.get(each.get("comparison"))
            if sign is None or part.get("predicate"):
                raise UnreadableError("ASOF JOIN on conditions other than equalities of left and right values")
            one, other = self.expression(each["left"], left), self.expression(each["right"], right)
            if sign in _SAME:
                equal += compared_in(sign, one, shifted(other, len(left.types)))
            else:
                bounds.append((sign, one, other))
        (sign, one, other), *_ = bounds
        if pat.is_floating(one.type):
            one, other = call("order", one), call("order", other)
        match = AsofMatch(one, other, sign.startswith(">"), not sign.endswith("="))
        return _shown_of_both(JoinNode(left, right, how, all_of(equal), match), len(left.types), part)


def _ordered(
    node: PlanNode, values: Sequence[Expression], order: Sequence[SortKey]
) -> tuple[PlanNode, tuple[SortKey, ...]]:
    """Return a projection with further columns that only the order reads, and the order by its columns."""
    read = [node.every_column[key.column] for key in order]
    output = [*values, *dict.fromkeys(each for each in read if each not in values)]
    keys = tuple(replace(key, column=output.index(each)) for key, each in zip(order, read, strict=True))
    return ProjectNode(node, tuple(output)), keys


def in_types(node: PlanNode, names: Sequence[str], fields: Sequence[tuple[str, pa.DataType]]) -> PlanNode:
    """Return columns of a relation, whose first columns have names, in some types."""
    at = dict(zip(names, node.every_column, strict=False))
    columns = tuple(
        at[name] if at[name].type == data_type else call("cast", at[name], option=data_type)
        for name, data_type in fields
    )
    return node if columns == node.every_column else ProjectNode(node, columns)


def _scan_type(kind: pa.DataType, declared: pa.DataType) -> pa.DataType:
    return declared if pat.is_duration(kind) and pat.is_duration(declared) else kind


def _chosen(node: PlanNode, indices: Sequence[int] | None) -> PlanNode:
    return node.select(indices) if indices else node


def _shown_of_both(node: PlanNode, width: int, part: Json) -> PlanNode:
    left = part.get("left_projection_map") or list(range(width))
    right = part.get("right_projection_map") or list(range(len(node.types) - width))
    return _chosen(node, [*left, *(width + index for index in right)])


_Reader = Callable[[_PlanReader, Json], PlanNode]

_NODES: Mapping[str, _Reader] = {
    "GET": _PlanReader.get,
    "DUMMY_SCAN": _PlanReader.one_row,
    "EMPTY_RESULT": _PlanReader.empty,
    "EXPRESSION_GET": _PlanReader.values,
    "PROJECTION": _PlanReader.project,
    "FILTER": _PlanReader.filter,
    "AGGREGATE_AND_GROUP_BY": _PlanReader.group,
    "DISTINCT": _PlanReader.distinct,
    "UNION": _PlanReader.union,
    "INTERSECT": _PlanReader.difference,
    "EXCEPT": _PlanReader.difference,
    "WINDOW": _PlanReader.windows,
    "UNNEST": _PlanReader.unnest,
    "ORDER_BY": _PlanReader.in_order,
    "LIMIT": _PlanReader.in_order,
    "MATERIALIZED_CTE": _PlanReader.shared,
    "CTE_REF": _PlanReader.shared_table,
    "CROSS_PRODUCT": _PlanReader.cross,
    "COMPARISON_JOIN": _PlanReader.join,
    "ANY_JOIN": _PlanReader.join,
    "ASOF_JOIN": _PlanReader.asof,
}

_NAMES = {"RECURSIVE_CTE": "recursive queries", "SAMPLE": "samples"}
