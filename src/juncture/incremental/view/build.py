"""Build a plan from sqlglot's tree of a query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from typing import cast as typed

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import did_you_mean
from juncture.incremental.view.coercion import cast, common_type, is_number
from juncture.incremental.view.expressions import (
    TRUE,
    Call,
    Expression,
    InputColumn,
    all_of,
    call,
    columns,
    conjuncts,
    shifted,
)
from juncture.incremental.view.grammar import AGGREGATES, is_comma
from juncture.incremental.view.parse import unsupported, wrong
from juncture.incremental.view.plan import (
    AsofMatch,
    FilterNode,
    GroupAggregate,
    GroupNode,
    JoinHow,
    JoinNode,
    PlanNode,
    ProjectNode,
    ScanNode,
    SortKey,
    TopNode,
    UnionNode,
)
from juncture.incremental.view.translate import Translator

_ORDER_BY_OTHER = "ORDER BY a value that is not in the SELECT list"
_REVERSED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


@dataclass(frozen=True)
class ViewQuery:
    """A plan, the names of its columns, and the order in which `View.result` returns its rows."""

    node: PlanNode
    names: tuple[str, ...]
    order: tuple[SortKey, ...] = ()


def build(sql: str, tree: Any, sources: Mapping[str, pa.Schema]) -> ViewQuery:
    """Return the plan of a parsed query. The keys of ``sources`` are lower case, and ``sql`` is for messages only."""
    return _PlanBuilder(sql, sources).query(tree, {})


Scope = dict[tuple[str, str], int]
Known = Mapping[str, ViewQuery]


class _PlanBuilder:
    def __init__(self, sql: str, sources: Mapping[str, pa.Schema]) -> None:
        self._sql = sql
        self._sources = sources
        self._exp = import_module("sqlglot").exp

    def query(self, tree: Any, known: Known) -> ViewQuery:
        """Return the plan of a SELECT or a UNION."""
        known = self._with(tree, known)
        if isinstance(tree, self._exp.Subquery):
            return self.query(tree.this, known)
        if isinstance(tree, self._exp.SetOperation):
            return self._ordered(tree, self._union(tree, known))
        if not isinstance(tree, self._exp.Select):
            raise unsupported(self._sql, tree, type(tree).__name__.upper())
        return _Select(self, self._sql, self._exp).query(tree, known)

    def _with(self, tree: Any, known: Known) -> Known:
        clause = tree.args.get("with_") or tree.args.get("with")
        if clause is None:
            return known
        if clause.args.get("recursive"):
            raise unsupported(self._sql, clause, "recursive queries")
        queries = dict(known)
        for each in clause.expressions:
            queries[each.alias] = self._renamed(self.query(each.this, queries), each)
        return queries

    def _union(self, tree: Any, known: Known) -> ViewQuery:
        if not isinstance(tree, self._exp.Union):
            raise unsupported(self._sql, tree, type(tree).__name__.upper())
        if tree.args.get("by_name"):
            raise unsupported(self._sql, tree, "UNION BY NAME", "Use UNION with the columns in the same order.")
        parts = [self.query(each, known) for each in (tree.left, tree.right)]
        if len(parts[0].names) != len(parts[1].names):
            left, right = (len(part.names) for part in parts)
            message = f"UNION has {left} columns on the left and {right} on the right. Select equally many."
            raise wrong(self._sql, tree.right, message, name="JN-SQL-COLUMN-COUNT")
        types = []
        for name, *pair in zip(parts[0].names, *(part.node.every_column for part in parts), strict=True):
            data_type = common_type(pair)
            if data_type is None:
                message = f"Column {name!r} of UNION is {pair[0].type} on the left and {pair[1].type} on the right."
                raise wrong(self._sql, tree.right, f"{message} Cast one of them.", name="JN-SQL-TYPE")
            types.append(data_type)
        nodes = [_in_types(part.node, types) for part in parts]
        flat = [each for node in nodes for each in (node.parts if isinstance(node, UnionNode) else (node,))]
        union: PlanNode = UnionNode(tuple(flat))
        if tree.args.get("distinct"):
            union = GroupNode(union, tuple(union.every_column), ())
        return ViewQuery(union, parts[0].names)

    def _ordered(self, tree: Any, query: ViewQuery) -> ViewQuery:
        """Return a UNION with its ORDER BY and LIMIT."""
        order = tree.args.get("order")
        places = {name: place for place, name in reversed(list(enumerate(query.names)))}
        keys = []
        for each in [] if order is None else order.expressions:
            place = self._sort_column(each.this, places, len(query.names))
            if place is None:
                raise unsupported(self._sql, each.this, _ORDER_BY_OTHER, "Select it too.")
            keys.append(SortKey(place, bool(each.args.get("desc")), bool(each.args.get("nulls_first"))))
        return self.limited(tree, ViewQuery(query.node, query.names, tuple(keys)))

    def _sort_column(self, node: Any, places: Mapping[str, int], count: int) -> int | None:
        if isinstance(node, self._exp.Literal) and not node.is_string and 1 <= int(node.this) <= count:
            return int(node.this) - 1
        return places.get(node.name) if isinstance(node, self._exp.Column) and not node.table else None

    def limited(self, tree: Any, query: ViewQuery) -> ViewQuery:
        """Return a query with LIMIT and OFFSET applied in its order."""
        limit, offset = (self._count(tree, name) for name in ("limit", "offset"))
        if limit is None and offset is None:
            return query
        return ViewQuery(TopNode(query.node, query.order, limit, offset or 0), query.names, query.order)

    def _count(self, tree: Any, name: str) -> int | None:
        clause = tree.args.get(name)
        if clause is None:
            return None
        value = clause.expression
        if not isinstance(value, self._exp.Literal) or value.is_string or not re.fullmatch(r"\d{1,18}", value.this):
            hint = f"Write a number, such as {name.upper()} 10."
            raise unsupported(self._sql, clause, f"{name.upper()} of other than an integer constant", hint)
        return int(value.this)

    def relation(self, item: Any, known: Known) -> ViewQuery:
        """Return the plan of a table or a subquery in FROM."""
        if isinstance(item, self._exp.Subquery):
            return self._renamed(self.query(item.this, known), item)
        if not isinstance(item, self._exp.Table) or not isinstance(item.this, self._exp.Identifier):
            raise unsupported(self._sql, item, f"{type(item).__name__.upper()} in FROM")
        if item.name in known and not item.db:
            return self._renamed(known[item.name], item)
        table = f"{item.db}.{item.name}" if item.db else item.name
        if table.removeprefix("main.") not in self._sources:
            message = f"Source {table!r} does not exist. {did_you_mean(table, self._sources)}"
            raise wrong(self._sql, item, message, name="JN-SQL-NAME")
        schema = self._sources[item.name]
        scan = ScanNode(item.name, tuple((field.name, field.type) for field in schema))
        return self._renamed(ViewQuery(scan, tuple(field.name.lower() for field in schema)), item)

    def _renamed(self, query: ViewQuery, item: Any) -> ViewQuery:
        """Return a query with its first columns renamed by an alias, such as ``q(a, b)``."""
        alias = item.args.get("alias")
        names = tuple(each.name for each in (alias.args.get("columns") or [])) if alias is not None else ()
        if len(names) > len(query.names):
            message = f"Alias {alias.name!r} has {len(names)} names for {len(query.names)} columns. Remove names."
            raise wrong(self._sql, alias, message, name="JN-SQL-COLUMN-COUNT")
        return ViewQuery(query.node, (*names, *query.names[len(names) :]), query.order)


def _in_types(node: PlanNode, types: Sequence[pa.DataType]) -> PlanNode:
    if list(node.types) == list(types):
        return node
    return ProjectNode(node, tuple(cast(each, to) for each, to in zip(node.every_column, types, strict=True)))


class _Select:
    """Builder for one SELECT."""

    def __init__(self, builder: _PlanBuilder, sql: str, exp: Any) -> None:
        self._builder = builder
        self._sql = sql
        self._exp = exp
        self._scope: Scope = {}
        self._before: Scope = {}

    def query(self, tree: Any, known: Known) -> ViewQuery:
        """Return the plan of the SELECT."""
        node = self._from(tree, known)
        self._resolve_order(tree)
        if tree.args.get("where"):
            node = self._filtered(node, tree.args["where"].this, self._translator(node))
        order = tree.args.get("order")
        shown = [*tree.expressions]
        extra = self._hidden(tree, shown)
        selected = [*shown, *extra]
        node, translate = self._grouped(tree, node, selected)
        if tree.args.get("having"):
            node = self._filtered(node, tree.args["having"].this, translate)
        node = ProjectNode(node, tuple(translate(each) for each in selected))
        names = tuple(each.alias_or_name for each in shown)
        if tree.args.get("distinct"):
            if extra:
                raise unsupported(self._sql, extra[0], f"{_ORDER_BY_OTHER} of SELECT DISTINCT", "Select it too.")
            node = GroupNode(node, tuple(node.every_column), ())
        keys = self._sort_keys(order, names, len(shown))
        limited_query = self._builder.limited(tree, ViewQuery(node, names, keys))
        if not extra:
            return limited_query
        if limited_query.node is node:
            raise unsupported(self._sql, extra[0], _ORDER_BY_OTHER, "Select it too.")
        return ViewQuery(ProjectNode(limited_query.node, limited_query.node.every_column[: len(shown)]), names)

    # FROM

    def _from(self, tree: Any, known: Known) -> PlanNode:
        clause = tree.args.get("from_") or tree.args.get("from")
        if clause is None:
            raise unsupported(self._sql, tree.expressions[0], "a SELECT without FROM")
        groups: list[list[Any]] = [[clause.this]]
        for join in tree.args.get("joins") or []:
            if is_comma(join):
                groups.append([join.this])
            else:
                groups[-1].append(join)
        node: PlanNode | None = None
        for table, *joins in groups:
            if node is None or any(join.args.get("side") in ("RIGHT", "FULL") for join in joins):
                # A comma binds less tightly than JOIN, so RIGHT and FULL joins run before the cross join.
                made = self._joined(table, joins, known, 0 if node is None else len(node.types))
                node = made if node is None else JoinNode(node, made, "inner", TRUE)
            else:
                right = self._add(table, known, len(node.types))
                node = self._joined_to(JoinNode(node, right, "inner", TRUE), joins, known)
        assert node is not None
        return node

    def _joined(self, table: Any, joins: Sequence[Any], known: Known, first: int) -> PlanNode:
        """Return joined tables whose columns start at position ``first`` of FROM. Earlier tables are not in scope."""
        self._before, self._scope = self._scope, {}
        node = self._joined_to(self._add(table, known, 0), joins, known)
        self._scope = self._before | {name: first + place for name, place in self._scope.items()}
        self._before = {}
        return node

    def _joined_to(self, node: PlanNode, joins: Sequence[Any], known: Known) -> PlanNode:
        for join in joins:
            right = self._add(join.this, known, len(node.types))
            node = self._join(join, node, right)
        return node

    def _add(self, item: Any, known: Known, first: int) -> PlanNode:
        query = self._builder.relation(item, known)
        for place, name in reversed(list(enumerate(query.names))):
            self._scope[(item.alias_or_name, name)] = first + place
        return query.node

    def _join(self, join: Any, left: PlanNode, right: PlanNode) -> PlanNode:
        side, kind, method = (str(join.args.get(each) or "").upper() for each in ("side", "kind", "method"))
        how = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}.get(side)
        if how is None or kind not in ("", "INNER", "CROSS", "OUTER") or method not in ("", "ASOF"):
            raise unsupported(self._sql, join.this, f"{' '.join(filter(None, (method, side, kind)))} JOIN")
        both = JoinNode(left, right, "inner", TRUE)
        on = join.args.get("on")
        condition = TRUE if on is None else self._translator(both).condition(on)
        if method == "ASOF":
            return self._asof(join, left, right, how, condition)
        return JoinNode(left, right, typed(JoinHow, how), condition)

    def _asof(self, join: Any, left: PlanNode, right: PlanNode, how: str, condition: Expression) -> PlanNode:
        if how not in ("inner", "left"):
            raise unsupported(self._sql, join.this, f"an ASOF {how.upper()} JOIN", "Use ASOF JOIN or ASOF LEFT JOIN.")
        parts = conjuncts(condition)
        match_condition = join.args.get("match_condition")
        if match_condition is not None:
            bounds = [self._translator(JoinNode(left, right, "inner", TRUE)).condition(match_condition)]
        else:
            bounds = [each for each in parts if isinstance(each, Call) and each.function in _REVERSED]
            parts = [each for each in parts if each not in bounds]
        shape = "one comparison of a left with a right value by >=, >, <= or <, such as (l.ts >= r.ts)"
        name = "JN-SQL-MATCH-CONDITION"
        if len(bounds) != 1:
            raise wrong(self._sql, join.this, f"ASOF JOIN needs MATCH_CONDITION with {shape}.", name=name)
        bound, width = bounds[0], len(left.types)
        if not isinstance(bound, Call) or bound.function not in _REVERSED:
            raise wrong(self._sql, join.this, f"MATCH_CONDITION must be {shape}.", name=name)
        function, (one, other) = bound.function, bound.operands
        if columns(one) and min(columns(one)) >= width:
            function, one, other = _REVERSED[function], other, one
        sides = [columns(one), columns(other)]
        if not all(sides) or max(sides[0]) >= width or min(sides[1]) < width:
            raise wrong(self._sql, join.this, f"MATCH_CONDITION must be {shape}.", name=name)
        if any(key_pair(each, width) is None for each in parts):
            what = "ASOF JOIN on conditions other than equalities of left and right values"
            raise unsupported(self._sql, join.this, what, "Filter each table in a subquery.")
        one, other = (call("order", each) if pat.is_floating(each.type) else each for each in (one, other))
        match = AsofMatch(one, shifted(other, -width), function.startswith("greater"), not function.endswith("equal"))
        return JoinNode(left, right, typed(JoinHow, how), all_of(parts), match)

    # WHERE, GROUP BY, HAVING

    def _translator(self, node: PlanNode) -> Translator:
        def known(tree: Any) -> Expression | None:
            if not isinstance(tree, self._exp.Column):
                return None
            place = self._scope.get((tree.table, tree.name))
            if place is None and (tree.table, tree.name) in self._before:
                what = "a RIGHT or FULL JOIN on a column of a table before the comma"
                raise unsupported(self._sql, tree, what, "Use CROSS JOIN in place of the comma.")
            if place is None:
                hint = did_you_mean(tree.name, dict.fromkeys(name for _, name in self._scope))
                raise wrong(self._sql, tree, f"Column {tree.sql('duckdb')} does not exist. {hint}", name="JN-SQL-NAME")
            return InputColumn(node.types[place], place)

        return Translator(self._sql, known)

    def _filtered(self, node: PlanNode, condition: Any, translate: Translator) -> PlanNode:
        own = (each for each in condition.find_all(self._exp.AggFunc) if each.parent_select is condition.parent_select)
        aggregate = next(own, None) if not isinstance(node, GroupNode) else None
        if aggregate is not None:
            raise wrong(self._sql, aggregate, "WHERE has an aggregate. Use HAVING.", name="JN-SQL-GROUP")
        return FilterNode(node, translate.condition(condition))

    def _grouped(self, tree: Any, node: PlanNode, asked: Sequence[Any]) -> tuple[PlanNode, Translator]:
        """Return the grouped plan, if the query has groups, and a translator for expressions above it."""
        group = tree.args.get("group")
        having = [tree.args["having"].this] if tree.args.get("having") else []
        for kind, what in ((self._exp.Window, "window functions"), (self._exp.Query, "subqueries within expressions")):
            refused = next((match for each in [*asked, *having] if (match := each.find(kind))), None)
            if refused is not None:
                raise unsupported(self._sql, refused, what)
        aggregate_nodes = [agg for each in [*asked, *having] for agg in each.find_all(self._exp.AggFunc)]
        if group is None and not aggregate_nodes:
            if having:
                message = "HAVING needs GROUP BY or an aggregate. Otherwise, use WHERE."
                raise wrong(self._sql, having[0], message, name="JN-SQL-GROUP")
            return node, self._translator(node)
        trees = [] if group is None else list(group.expressions)
        if group is not None and group.args.get("all"):
            trees = [each.unalias() for each in asked if each.find(self._exp.AggFunc) is None]
        inside = self._translator(node)
        keys = [inside(each) for each in trees]
        distinct = list(dict.fromkeys(aggregate_nodes))
        aggregates = [self._aggregate(each, inside) for each in distinct]
        grouped = GroupNode(node, tuple(keys), tuple(aggregates))
        places = {each: place for place, each in enumerate([*trees, *distinct])}

        def known(each: Any) -> Expression | None:
            if each in places:
                return InputColumn(grouped.types[places[each]], places[each])
            if isinstance(each, self._exp.Column):
                message = f"{each.sql('duckdb')} is neither in GROUP BY nor in an aggregate. Add it to GROUP BY."
                raise wrong(self._sql, each, message, name="JN-SQL-GROUP")
            return None

        return grouped, Translator(self._sql, known)

    def _aggregate(self, tree: Any, inside: Translator) -> GroupAggregate:
        name = type(tree).__name__
        if name not in AGGREGATES:
            hint = "Use COUNT, SUM, AVG, MIN or MAX."
            raise unsupported(self._sql, tree, f"the aggregate {tree.sql_name()}", hint)
        if isinstance(tree.parent, self._exp.Filter):
            raise unsupported(self._sql, tree, "FILTER of an aggregate", "Write SUM(CASE WHEN … THEN … END).")
        value, distinct = tree.this, False
        if isinstance(value, self._exp.Distinct):
            if len(value.expressions) != 1:
                raise unsupported(self._sql, tree, "DISTINCT of several values in an aggregate")
            value, distinct = value.expressions[0], True
        if name == "Count":
            of = None if value is None or isinstance(value, self._exp.Star) else inside(value)
            return GroupAggregate("count", of, distinct, pa.int64())
        of = inside(value)
        of = cast(of, pa.int64()) if pat.is_null(of.type) else of
        if name in ("Sum", "Avg"):
            if not is_number(of.type):
                message = f"{name.upper()} has a value of type {of.type}. Expected a number. Cast it."
                raise wrong(self._sql, tree, message, name="JN-SQL-TYPE")
            return GroupAggregate("sum" if name == "Sum" else "avg", of, distinct, _sum_type(name, of.type))
        # DISTINCT makes no difference for MIN and MAX.
        return GroupAggregate("min" if name == "Min" else "max", of, False, of.type)

    # SELECT, ORDER BY

    def _resolve_order(self, tree: Any) -> None:
        """Resolve unqualified columns in ORDER BY.

        A bare name is a result column first. A name within an expression is a table column first.
        """
        order = tree.args.get("order")
        shown = {each.alias_or_name: each.unalias() for each in reversed(tree.expressions)}

        def resolved(node: Any) -> Any:
            if not isinstance(node, self._exp.Column) or node.table:
                return node
            tables = [table for table, name in self._scope if name == node.name]
            if len(tables) > 1:
                message = f"Column {node.name!r} is in several tables. Write for example {tables[0]}.{node.name}."
                raise wrong(self._sql, node, message, name="JN-SQL-NAME")
            return self._exp.column(node.name, tables[0]) if tables else shown.get(node.name, node).copy()

        for each in [] if order is None else order.expressions:
            if not isinstance(each.this, self._exp.Column):
                each.set("this", each.this.transform(resolved))

    def _hidden(self, tree: Any, shown: Sequence[Any]) -> list[Any]:
        """Return the ORDER BY expressions that are not result columns."""
        names = {each.alias_or_name for each in shown}
        order = tree.args.get("order")
        hidden = []
        for each in [] if order is None else order.expressions:
            is_place = isinstance(each.this, self._exp.Literal)
            is_name = isinstance(each.this, self._exp.Column) and not each.this.table and each.this.name in names
            if not is_place and not is_name and self._same(each.this, shown) is None:
                hidden.append(each.this)
        return hidden

    def _same(self, node: Any, shown: Sequence[Any]) -> int | None:
        """Return the position of the result column with the same expression."""
        return next((place for place, each in enumerate(shown) if each.unalias() == node), None)

    def _sort_keys(self, order: Any, names: Sequence[str], count: int) -> tuple[SortKey, ...]:
        keys, hidden = [], count
        for each in [] if order is None else order.expressions:
            node = each.this
            shown = order.parent.expressions
            place = self._same(node, shown)
            if isinstance(node, self._exp.Literal):
                place = int(node.this) - 1
                if not 0 <= place < count:
                    message = f"ORDER BY {node.this} is not a column. The result has {count} columns."
                    raise wrong(self._sql, node, message, name="JN-SQL-NAME")
            elif isinstance(node, self._exp.Column) and not node.table and node.name in names:
                place = list(names).index(node.name)
            if place is None:
                place, hidden = hidden, hidden + 1
            keys.append(SortKey(place, bool(each.args.get("desc")), bool(each.args.get("nulls_first"))))
        return tuple(keys)


def _sum_type(name: str, data_type: pa.DataType) -> pa.DataType:
    if name == "Avg" or pat.is_floating(data_type):
        return pa.float64()
    return pa.decimal128(38, data_type.scale) if pat.is_decimal(data_type) else pa.int64()


def key_pair(part: Expression, width: int) -> tuple[Expression, Expression] | None:
    """Return the left and right side of an equality between both sides; None for other conditions."""
    if not isinstance(part, Call) or part.function != "equal":
        return None
    one, other = part.operands
    sides = (columns(one), columns(other))
    if not all(sides):
        return None
    if min(sides[0]) >= width:
        one, other, sides = other, one, sides[::-1]
    if max(sides[0]) >= width or min(sides[1]) < width:
        return None
    return one, shifted(other, -width)
