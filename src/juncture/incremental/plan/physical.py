"""Build operators from a plan. Equal nodes share one operator, and equal indexes share one arrangement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from juncture.errors import SpecError
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches
from juncture.incremental.expressions.expression import (
    TRUE,
    Call,
    Constant,
    Expression,
    InputColumn,
    all_of,
    columns_of,
    conjuncts,
    is_comparison,
    key_pair,
    shifted,
    text_of,
)
from juncture.incremental.expressions.functions import COMPARISONS
from juncture.incremental.operators.arranged import ArrangedOperator
from juncture.incremental.operators.eviction import Future, carry, retention
from juncture.incremental.operators.group import GroupOperator
from juncture.incremental.operators.join import JoinOperator, JoinPath, Lookup
from juncture.incremental.operators.keys import KeyDomain
from juncture.incremental.operators.operator import FilterOperator, ProjectOperator, UnionOperator, ViewOperator
from juncture.incremental.operators.order import RowOrder
from juncture.incremental.operators.partition import ExpandOperator, PartitionOperator
from juncture.incremental.operators.spec_join import SpecJoinOperator
from juncture.incremental.operators.top import TopOperator
from juncture.incremental.plan.clusters import DeltaPath, JoinCluster, cluster_of
from juncture.incremental.plan.nodes import (
    EmptyNode,
    ExpandNode,
    FilterNode,
    PlanNode,
    ProjectNode,
    ScanNode,
    UnionNode,
)
from juncture.incremental.plan.stateful_nodes import GroupNode, JoinNode, PartitionNode, SpecJoinNode, TopNode
from juncture.incremental.state.arrangement import Arrangement
from juncture.incremental.state.run import Delta
from juncture.spec.asof import Asof
from juncture.spec.base import Spec
from juncture.spec.schema import SIDES, Side
from juncture.spec.where import Where

Keys = tuple[Expression, ...]


class SourceRows(Protocol):
    """The rows of a source, in an operator that reads them."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    @property
    def arrangement(self) -> Arrangement:
        """The rows."""

    def located(self, changes: ChangeBatches, /) -> tuple[Delta, ChangeBatch]:
        """Return distinct changes that can be applied, for the next step, and rows with their unmatched deletes."""


class OperatorGraph:
    """Operators, each after its inputs; ``answers`` are those with the results. Other mappings are by source.

    ``nodes`` and ``arrangements`` have the operators by what identifies them: a node, or also keys and an order.
    """

    def __init__(self) -> None:
        self.operators: list[ViewOperator] = []
        self.inputs: dict[str, ViewOperator] = {}
        self.scans: dict[str, ScanNode] = {}
        self.source_rows: dict[str, SourceRows] = {}
        self.domains: list[KeyDomain] = []
        self.answers: dict[str, ViewOperator] = {}
        self.nodes: dict[PlanNode, ViewOperator] = {}
        self.arrangements: dict[tuple[PlanNode, Keys, RowOrder | None], ArrangedOperator] = {}

    @property
    def stored_schemas(self) -> dict[str, pa.Schema]:
        """The stored columns of each source."""
        return {source: rows.schema for source, rows in self.source_rows.items()}


def operators_of(plans: Mapping[str, PlanNode], static: Collection[str], *, keeps_final: bool = True) -> OperatorGraph:
    """Return the operators of answers, which share equal nodes. Static sources never change after the first epoch.

    With ``keeps_final``, answers keep the rows that can no longer change.
    """
    builder = _OperatorBuilder(frozenset(static))
    builder.find_domains(plans.values())
    graph = builder.graph
    for name, plan in plans.items():
        answer = builder.arranged(plan, builder.operator(plan), (), "the answer" if len(plans) == 1 else name)
        answer.keeps = answer.emits_distinct = True
        graph.answers[name] = answer
    for source, scan in graph.scans.items():
        # Reuse an arrangement of the source by any key.
        arranged = [each for (node, *_), each in graph.arrangements.items() if node == scan and each.keeps]
        source_rows = arranged[0] if arranged else builder.arranged(scan, graph.inputs[source], (), f"rows of {source}")
        source_rows.keeps = True
        graph.source_rows[source] = source_rows
    read = {id(each) for operator in graph.operators for each in operator.inputs}
    for operator in graph.arrangements.values():
        operator.is_last = id(operator) not in read
    if any(scan.order is not None for scan in graph.scans.values()):
        builder.set_retention(keeps_final=keeps_final)
    return graph


class _OperatorBuilder:
    def __init__(self, static: frozenset[str]) -> None:
        self.graph = OperatorGraph()
        self._static = static
        self._domains: dict[tuple[PlanNode, Keys], tuple[PlanNode, Keys]] = {}
        self._codes: dict[tuple[PlanNode, Keys], KeyDomain] = {}
        self._futures: dict[PlanNode, Future] = {}
        self._needed: dict[ViewOperator, Future] = {}
        self._tops: dict[ArrangedOperator, list[TopOperator]] = {}
        self._groups: dict[ViewOperator, GroupNode] = {}
        self._joins: dict[SpecJoinOperator, JoinNode] = {}
        self._part_of_others: set[PlanNode] = set()
        self._used_once: set[PlanNode] = set()

    # Keys that are compared share their codes.

    def find_domains(self, plans: Iterable[PlanNode]) -> None:
        """Find the keys that joins compare, and those of rows and results of partitions, which then share codes."""
        nodes: dict[PlanNode, None] = {}
        roots = list(plans)
        rest = list(roots)
        while rest:
            each = rest.pop()
            if each not in nodes:
                nodes[each] = None
                rest += each.inputs
        used = Counter([*roots, *(below for each in nodes for below in each.inputs)])
        self._used_once = {each for each, count in used.items() if count == 1}
        joins = [each for each in nodes if isinstance(each, JoinNode) and each.shares_rows]
        # A join with several uses is one operator, and not a part of the clusters that use it.
        self._part_of_others = {below for each in joins for below in each.inputs if used[below] == 1} & set(joins)
        for each in joins:
            if each not in self._part_of_others:
                self._find_domains_of(self._cluster(each))
        for partitioned in (each for each in nodes if isinstance(each, PartitionNode)):
            results, rows = (partitioned, partitioned.result_keys), (partitioned.input, partitioned.keys)
            self._domains[self._root(results)] = self._root(rows)

    def _find_domains_of(self, cluster: JoinCluster) -> None:
        for path in cluster.delta_paths([part.sources <= self._static for part in cluster.parts]):
            for stage in path.stages:
                part = cluster.owner(columns_of(stage.keys))
                if part is not None:
                    keys = tuple(shifted(key, -cluster.firsts[part]) for key in stage.keys)
                    one, other = (cluster.parts[part], keys), (cluster.parts[stage.part], stage.by)
                    self._domains[self._root(one)] = self._root(other)

    def _cluster(self, node: JoinNode) -> JoinCluster:
        return cluster_of(node, lambda each: each in self._part_of_others)

    def _root(self, arrangement_key: tuple[PlanNode, Keys]) -> tuple[PlanNode, Keys]:
        while self._domains.get(arrangement_key, arrangement_key) != arrangement_key:
            arrangement_key = self._domains[arrangement_key]
        return arrangement_key

    def arranged(
        self, node: PlanNode, source: ViewOperator, keys: Keys, label: str = "", order: RowOrder | None = None
    ) -> ArrangedOperator:
        """Return the rows of a node arranged by keys, and within a key in an order."""
        identity = (node, keys, order)
        if identity not in self.graph.arrangements:
            root = self._root((node, keys))
            if root not in self._codes:
                self._codes[root] = KeyDomain([key.type for key in keys])
                self.graph.domains.append(self._codes[root])
            by = ", ".join(text_of(key, node.names) for key in keys)
            arranged = ArrangedOperator(label or f"arranged by {by}", source, keys, self._codes[root], order)
            self.graph.arrangements[identity] = arranged
            self.graph.operators.append(arranged)
        return self.graph.arrangements[identity]

    def operator(self, node: PlanNode) -> ViewOperator:
        """Return the operator of a node."""
        if node not in self.graph.nodes:
            operator = self.graph.nodes[node] = _BUILDERS[type(node)](self, node)
            if operator not in self.graph.operators:
                self.graph.operators.append(operator)
        return self.graph.nodes[node]

    # Rows that are forgotten

    def _future(self, node: PlanNode) -> Future:
        """Return the changes of a node that are possible, with bounds over its columns."""
        if node not in self._futures:
            is_static = node.sources <= self._static
            future = () if is_static else node.future([self._future(each) for each in node.inputs])
            self._futures[node] = tuple(dict.fromkeys(future))
        return self._futures[node]

    def set_retention(self, *, keeps_final: bool) -> None:
        """Let operators forget the rows that no future change can need."""
        for (node, *_), arranged in self.graph.arrangements.items():
            if arranged.keeps:
                self._retain(arranged, "rows", self._future(node), node.names)
        for operator, groups in self._groups.items():
            self._retain(operator, "groups", self._future(groups), groups.names)
        for join, joined in self._joins.items():
            self._retain_sides(join, joined)
        for answer in self.graph.answers.values() if keeps_final else ():
            answer.futures, answer.retention = {}, "keeps all rows of the result"
        for arranged, tops in self._tops.items():
            future, count = arranged.futures.pop("rows", ()), tops[0].needed_final_rows
            if future and count is not None and len(tops) == 1:
                tops[0].superseding = future
                arranged.retention += f", except the first {count:,}"
            elif future:
                arranged.retention = f"grows: any row can be needed by {tops[-1].label}"

    def _retain_sides(self, join: SpecJoinOperator, node: JoinNode) -> None:
        texts = []
        futures = [self._future(each) for each in node.inputs]
        joined_future = node.joined_future(futures)
        for number, (side, node_of_side) in enumerate(zip(SIDES, node.inputs, strict=True)):
            values = join.stored_values(side)
            of_side = list(zip(node_of_side.every_column, node.columns_of(number), strict=True))
            future = (*self._future(node_of_side), *carry(joined_future, of_side))
            stored = [(InputColumn(each.type, index), each) for index, each in enumerate(values)]
            names = [text_of(each, node_of_side.names) for each in values]
            self._retain(join, side, carry(future, stored, node_of_side.is_never_null, is_last=True), names)
            asof_future = node.asof_future(futures) if side == "right" and side not in join.futures else ()
            if asof_future and all(each.bounds for each in asof_future):
                join.superseding = asof_future
                join.retention = f"{retention(asof_future, node_of_side.names)}, except the last one of each key"
            texts.append(f"{side}: {join.retention}")
        join.retention = "; ".join(texts)

    def _retain(self, operator: ViewOperator, table: str, future: Future, names: Sequence[str]) -> None:
        if not future:
            operator.retention = "keeps all rows, which do not change"
            return
        future = tuple(dict.fromkeys((*future, *self._needed.get(operator, ()))))
        operator.retention = retention(future, names)
        if all(each.bounds for each in future):
            operator.futures[table] = future

    def _need(self, arranged: ArrangedOperator, future: Future) -> None:
        """Record changes that need rows of an arrangement, with bounds over its columns."""
        self._needed[arranged] = (*self._needed.get(arranged, ()), *future)

    # A builder for each type of node

    def scan(self, node: ScanNode) -> ViewOperator:
        operator = ViewOperator(node.source, node.types, ())
        self.graph.inputs[node.source] = operator
        self.graph.scans[node.source] = node
        return operator

    def union(self, node: PlanNode) -> ViewOperator:
        inputs = [self.operator(each) for each in node.inputs]
        return UnionOperator("union" if inputs else "no rows", node.types, inputs)

    def filter(self, node: FilterNode, output: Sequence[InputColumn] = ()) -> ViewOperator:
        """Return a filter, which outputs some columns or all."""
        indices = [each.index for each in output or node.every_column]
        label = f"filter {text_of(node.condition, node.input.names)}"
        return FilterOperator(label, self.operator(node.input), node.condition, indices)

    def project(self, node: ProjectNode) -> ViewOperator:
        chosen = [each for each in node.columns if isinstance(each, InputColumn)]
        if len(chosen) == len(node.columns) and isinstance(node.input, FilterNode) and node.input in self._used_once:
            return self.filter(node.input, chosen)
        return ProjectOperator(f"project {', '.join(node.names)}", self.operator(node.input), node.columns)

    def group(self, node: GroupNode) -> ViewOperator:
        domain = KeyDomain([each.type for each in node.keys], nulls_equal=True)
        self.graph.domains.append(domain)
        keys, values = node.names[: len(node.keys)], node.names[len(node.keys) :]
        label = f"group{' by ' * bool(keys)}{', '.join(keys)}: {', '.join(values)}" if values else "distinct"
        operator = GroupOperator(label, self.operator(node.input), node.keys, node.aggregates, domain)
        self._groups[operator] = node
        return operator

    def top(self, node: TopNode) -> ViewOperator:
        arranged = self._arranged(node.input, ())
        arranged.keeps = True
        label = "top" if node.limit is None else f"top {node.limit:,}"
        operator = TopOperator(label, arranged, node.order, node.limit, node.offset)
        self._tops.setdefault(arranged, []).append(operator)
        return operator

    def expand(self, node: ExpandNode) -> ViewOperator:
        label = f"for each row, {node.text('row number')}"
        return ExpandOperator(label, node.types, self.operator(node.input), node.reads, node.query)

    def partition(self, node: PartitionNode) -> ViewOperator:
        by = None if node.order is None else node.order.by
        rows = self.arranged(node.input, self.operator(node.input), node.keys, order=by)
        rows.keeps = True
        self._need(rows, carry(self._future(node.input), [(key, key) for key in node.keys], node.input.is_never_null))
        keys = ", ".join(text_of(each, node.input.names) for each in node.keys)
        operator = PartitionOperator(
            node.text("row number", keys),
            node.types,
            rows,
            node.reads,
            node.query,
            adds_columns=node.adds_columns,
            order=node.order,
        )
        # The results are arranged after the operator that makes them.
        self.graph.operators.append(operator)
        operator.results = self.arranged(node, operator, node.result_keys, "results by partition", by)
        operator.results.keeps = True
        return operator

    def join(self, node: JoinNode) -> ViewOperator:
        return self._shared(node) if node.shares_rows else self._join_and_filter(node) or self._stored_join(node)

    def _shared(self, node: JoinNode) -> ViewOperator:
        cluster = self._cluster(node)
        static = [part.sources <= self._static for part in cluster.parts]
        rank = {part: number for number, part in enumerate(cluster.order(static))}
        delta_paths = cluster.delta_paths(static)
        futures = cluster.futures([self._future(part) for part in cluster.parts])
        lookups: list[list[Lookup]] = []
        for delta_path in delta_paths:
            lookups.append([])
            for stage in delta_path.stages:
                arranged = self._arranged(cluster.parts[stage.part], stage.by)
                # Rows are looked up only if an input can change.
                arranged.keeps |= not all(static)
                self._need(arranged, futures[stage.part])
                is_changed = rank[stage.part] < rank[delta_path.part]
                lookups[-1].append(Lookup(stage.part, arranged, stage.keys, stage.condition, is_changed))
        paths = [
            JoinPath(delta_path.part, self._start(cluster, delta_path), delta_path.condition, tuple(stages))
            for delta_path, stages in zip(delta_paths, lookups, strict=True)
        ]
        used = {path.part: path.start for path in paths}
        used |= {each.part: each.arranged for path in paths for each in path.lookups}
        widths = [len(part.types) for part in cluster.parts]
        inputs = [used[part] for part in range(len(widths))]
        return JoinOperator(cluster.label, node.types, inputs, widths, paths, cluster.output)

    def _arranged(self, node: PlanNode, keys: Keys) -> ArrangedOperator:
        return self.arranged(node, self.operator(node), keys)

    def _start(self, cluster: JoinCluster, path: DeltaPath) -> ArrangedOperator:
        """Return an arrangement that has the changes of an input: a stored one, preferably by the first keys."""
        part = cluster.parts[path.part]
        keys = tuple(shifted(key, -cluster.firsts[path.part]) for key in path.stages[0].keys)
        stored = [each for (node, *_), each in self.graph.arrangements.items() if node == part and each.keeps]
        return stored[0] if stored and (part, keys, None) not in self.graph.arrangements else self._arranged(part, keys)

    # Joins that store their own rows

    def _join_and_filter(self, node: JoinNode) -> ViewOperator | None:
        """Return an inner join and a filter for conditions that read both sides in one value; None without them."""
        parts = conjuncts(node.condition)
        rest = [each for each in parts if not is_comparison(each, len(node.left.types))]
        if node.how != "inner" or not rest:
            return None
        joined = JoinNode(node.left, node.right, "inner", all_of([each for each in parts if each not in rest]))
        return self.operator(FilterNode(joined, all_of(rest)).select(node.returned))

    def _stored_join(self, node: JoinNode) -> ViewOperator:
        sides: dict[Side, PlanNode] = {"left": node.left, "right": node.right}
        sources = {side: self.operator(rows) for side, rows in sides.items()}
        named: dict[Side, dict[str, Expression]] = {
            side: {f"{side[0]}{index}": each for index, each in enumerate(rows.every_column)}
            for side, rows in sides.items()
        }
        names = [name for columns in named.values() for name in columns]
        spec = self._asof(node, named) if node.asof is not None else _where(node, named)
        texts = {name: text_of(each, rows.names) for side, rows in sides.items() for name, each in named[side].items()}
        output = [names[index] for index in node.returned]
        operator = SpecJoinOperator(_label(node), node.types, sources, named, spec, output, texts)
        self._joins[operator] = node
        return operator

    def spec_join(self, node: SpecJoinNode) -> ViewOperator:
        sources: dict[Side, ViewOperator] = {"left": self.operator(node.left), "right": self.operator(node.right)}
        columns: dict[Side, dict[str, Expression]] = {
            "left": dict(zip(node.left_names, node.left.every_column, strict=True)),
            "right": dict(zip(node.right_names, node.right.every_column, strict=True)),
        }
        label = f"{node.spec.how or 'inner'} {node.spec.kind} join"
        return SpecJoinOperator(label, node.types, sources, columns, node.spec, node.names, {})

    def _asof(self, node: JoinNode, named: dict[Side, dict[str, Expression]]) -> Spec:
        match = node.asof
        assert match is not None
        width = node.width
        pairs = [key_pair(each, frozenset(range(width))) for each in conjuncts(node.condition)]
        on = _named(named, "left", match.left), _named(named, "right", match.right)
        # An as-of join drops right keys, but the query may read them as nulls, so keys are added a second time.
        keys = [(pair[0], shifted(pair[1], -width)) for pair in pairs if pair]
        by = [(_named(named, "left", one), _added(named, "right", other)) for one, other in keys]
        assert len(by) == len(pairs)
        return Asof(
            left_on=on[0],
            right_on=on[1],
            left_by=[one for one, _ in by] or None,
            right_by=[other for _, other in by] or None,
            direction="backward" if match.backward else "forward",
            allow_exact_matches=not match.strict,
            how=node.how,
            coalesce=False,
        )


def _label(node: JoinNode) -> str:
    label = f"{'as-of ' * (node.asof is not None)}{node.how} join"
    if node.condition != TRUE:
        label += f" on {text_of(node.condition, node.both_names)}"
    if node.asof is not None:
        sign = (">" if node.asof.backward else "<") + "=" * (not node.asof.strict)
        left, right = text_of(node.asof.left, node.left.names), text_of(node.asof.right, node.right.names)
        label += f" where {left} {sign} {right}"
    return label


def _named(named: dict[Side, dict[str, Expression]], side: Side, value: Expression) -> str:
    """Return the name of a value among the columns of a side, and add it if it is new."""
    same = next((name for name, each in named[side].items() if each == value), None)
    return same or _added(named, side, value)


def _added(named: dict[Side, dict[str, Expression]], side: Side, value: Expression) -> str:
    name = f"{side[0]}{len(named[side])}"
    named[side][name] = value
    return name


def _where(node: JoinNode, named: dict[Side, dict[str, Expression]]) -> Spec:
    def text(condition: Expression) -> str:
        side = node.side(condition)
        if side is not None:
            return f"{'lr'[side]}.{_named(named, SIDES[side], shifted(condition, -node.width * side))}"
        if isinstance(condition, Call) and condition.function in ("and", "or"):
            return f"({f' {condition.function} '.join(text(each) for each in condition.operands)})"
        if isinstance(condition, Call) and condition.function == "not":
            return f"(not {text(condition.operands[0])})"
        if isinstance(condition, Call) and condition.function in COMPARISONS:
            one, other = condition.operands
            return f"({text(one)} {COMPARISONS[condition.function]} {text(other)})"
        if isinstance(condition, Constant):
            return "null" if condition.value is None else str(condition.value).lower()
        raise SpecError(
            f"sql= has {text_of(condition, node.both_names)} in the condition of an outer "
            "join. Expected comparisons of a value of one table with a value of the other.",
            name="JN-SQL-UNSUPPORTED",
        )

    predicate = " and ".join(text(each) for each in conjuncts(node.condition)) or "true"
    return Where(predicate, how=node.how, allow_cross=True)


_Build = Callable[[_OperatorBuilder, Any], ViewOperator]

_BUILDERS: Mapping[type[PlanNode], _Build] = {
    ScanNode: _OperatorBuilder.scan,
    EmptyNode: _OperatorBuilder.union,
    FilterNode: _OperatorBuilder.filter,
    ProjectNode: _OperatorBuilder.project,
    UnionNode: _OperatorBuilder.union,
    JoinNode: _OperatorBuilder.join,
    SpecJoinNode: _OperatorBuilder.spec_join,
    GroupNode: _OperatorBuilder.group,
    TopNode: _OperatorBuilder.top,
    PartitionNode: _OperatorBuilder.partition,
    ExpandNode: _OperatorBuilder.expand,
}
"""How a node becomes an operator."""
