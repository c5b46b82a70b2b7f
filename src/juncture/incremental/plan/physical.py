"""Build operators from a plan. Equal nodes share one operator, and equal indexes share one arrangement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from juncture.errors import SpecError
from juncture.incremental.expressions.expression import (
    TRUE,
    Call,
    Constant,
    Expression,
    InputColumn,
    all_of,
    columns,
    conjuncts,
    is_comparison,
    key_pair,
    shifted,
    shown,
)
from juncture.incremental.operators.arranged import ArrangedOperator, KeyDomain
from juncture.incremental.operators.group import GroupAggregate, GroupOperator
from juncture.incremental.operators.join import JoinOperator, JoinPath, Lookup
from juncture.incremental.operators.operator import ViewOperator
from juncture.incremental.operators.partition import ExpandOperator, PartitionOperator
from juncture.incremental.operators.spec_join import SpecJoinOperator
from juncture.incremental.operators.stateless import FilterOperator, InputOperator, ProjectOperator, UnionOperator
from juncture.incremental.operators.top import TopOperator
from juncture.incremental.plan.clusters import DeltaPath, JoinCluster, cluster_of
from juncture.incremental.plan.nodes import (
    EmptyNode,
    ExpandNode,
    FilterNode,
    GroupNode,
    JoinNode,
    PartitionNode,
    PlanNode,
    ProjectNode,
    ScanNode,
    TopNode,
    UnionNode,
)
from juncture.spec.asof import Asof
from juncture.spec.base import Spec
from juncture.spec.schema import Side
from juncture.spec.where import Where

Keys = tuple[Expression, ...]

_BOUNDS = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_COMPARED = _BOUNDS | {"equal": "=", "not_equal": "<>"}


class BuiltView:
    """The operators of a plan, each after its inputs.

    By source: ``inputs`` accept changes, ``scans`` list the columns, and ``source_rows`` has the rows.
    """

    def __init__(self) -> None:
        self.operators: list[ViewOperator] = []
        self.inputs: dict[str, InputOperator] = {}
        self.scans: dict[str, ScanNode] = {}
        self.source_rows: dict[str, ArrangedOperator] = {}
        self.domains: list[KeyDomain] = []
        self.answer: ArrangedOperator


def operators_of(plan: PlanNode, static: Collection[str]) -> BuiltView:
    """Return the operators of a plan, given the sources that never change after the first epoch."""
    builder = _OperatorBuilder(frozenset(static))
    builder.find_domains(plan)
    built = builder.built
    root = builder.operator(plan)
    built.answer = builder.arranged(plan, root, (), "the answer")
    built.answer.keeps = built.answer.emits_distinct = True
    for source, scan in built.scans.items():
        # Reuse an arrangement of the source by any key.
        arranged = [each for (node, _), each in builder.arrangements.items() if node == scan and each.keeps]
        source_rows = arranged[0] if arranged else builder.arranged(scan, built.inputs[source], (), f"rows of {source}")
        source_rows.keeps = True
        built.source_rows[source] = source_rows
    return built


class _OperatorBuilder:
    def __init__(self, static: frozenset[str]) -> None:
        self.built = BuiltView()
        self.arrangements: dict[tuple[PlanNode, Keys], ArrangedOperator] = {}
        self._static = static
        self._made: dict[PlanNode, ViewOperator] = {}
        self._domains: dict[tuple[PlanNode, Keys], tuple[PlanNode, Keys]] = {}
        self._codes: dict[tuple[PlanNode, Keys], KeyDomain] = {}
        self._part_of_others: set[PlanNode] = set()
        self._used_once: set[PlanNode] = set()

    # Keys that are compared share their codes.

    def find_domains(self, node: PlanNode) -> None:
        """Find the keys that joins compare, which then share codes."""
        seen: dict[PlanNode, None] = {}
        rest = [node]
        while rest:
            each = rest.pop()
            if each not in seen:
                seen[each] = None
                rest += each.inputs
        used = Counter(below for each in seen for below in each.inputs)
        self._used_once = {each for each, count in used.items() if count == 1}
        # A join with several uses is one operator, and not a part of the clusters that use it.
        self._part_of_others = {
            below
            for each in seen
            if isinstance(each, JoinNode) and _is_shared(each)
            for below in each.inputs
            if isinstance(below, JoinNode) and _is_shared(below) and used[below] == 1
        }
        for each in seen:
            if isinstance(each, JoinNode) and _is_shared(each) and each not in self._part_of_others:
                self._find_domains_of(self._cluster(each))

    def _find_domains_of(self, cluster: JoinCluster) -> None:
        for path in cluster.delta_paths([self._is_static(part) for part in cluster.parts]):
            for stage in path.stages:
                read = frozenset(place for key in stage.keys for place in columns(key))
                for part, first in enumerate(cluster.firsts):
                    if read and read <= cluster.places(part):
                        keys = tuple(shifted(key, -first) for key in stage.keys)
                        one, other = (cluster.parts[part], keys), (cluster.parts[stage.part], stage.by)
                        self._domains[self._root(one)] = self._root(other)

    def _cluster(self, node: JoinNode) -> JoinCluster:
        return cluster_of(node, lambda each: each in self._part_of_others)

    def _root(self, place: tuple[PlanNode, Keys]) -> tuple[PlanNode, Keys]:
        while self._domains.get(place, place) != place:
            place = self._domains[place]
        return place

    def arranged(self, node: PlanNode, source: ViewOperator, keys: Keys, label: str = "") -> ArrangedOperator:
        """Return the rows of a node arranged by keys."""
        place = (node, keys)
        if place not in self.arrangements:
            root = self._root(place)
            if root not in self._codes:
                self._codes[root] = KeyDomain([key.type for key in keys])
                self.built.domains.append(self._codes[root])
            names = _names(node)
            by = ", ".join(shown(key, names) for key in keys)
            made = ArrangedOperator(label or f"arranged by {by}", source, keys, self._codes[root])
            self.arrangements[place] = made
            self.built.operators.append(made)
        return self.arrangements[place]

    def operator(self, node: PlanNode) -> ViewOperator:
        """Return the operator of a node."""
        if node not in self._made:
            self._made[node] = self._operator(node)
            if self._made[node] not in self.built.operators:
                self.built.operators.append(self._made[node])
        return self._made[node]

    def _operator(self, node: PlanNode) -> ViewOperator:
        if isinstance(node, ScanNode):
            made = InputOperator(node.source, node.types)
            self.built.inputs[node.source] = made
            self.built.scans[node.source] = node
            return made
        if isinstance(node, EmptyNode):
            return UnionOperator("no rows", node.types, ())
        if isinstance(node, JoinNode):
            return self._shared(node) if _is_shared(node) else self._join_and_filter(node) or self._stored_join(node)
        if isinstance(node, FilterNode):
            return self._filter(node, node.every_column)
        if isinstance(node, ProjectNode) and isinstance(node.input, FilterNode) and self._is_choice(node):
            return self._filter(node.input, node.columns)
        if isinstance(node, PartitionNode):
            return self._partition(node)
        inputs = [self.operator(each) for each in node.inputs]
        names = _names(node.inputs[0])
        if isinstance(node, ExpandNode):
            return ExpandOperator(
                f"for each row, {_query_text(node, names)}", node.types, inputs[0], node.reads, node.query
            )
        if isinstance(node, ProjectNode):
            return ProjectOperator(f"project {_listed(node.columns, names)}", inputs[0], node.columns)
        if isinstance(node, UnionNode):
            return UnionOperator("union", node.types, inputs)
        if isinstance(node, GroupNode):
            values = [_aggregate_name(each, names) for each in node.aggregates]
            label = f"group by {_listed(node.keys, names)}" if node.keys else "group"
            label = "distinct" if not values else f"{label}: {', '.join(values)}"
            domain = KeyDomain([each.type for each in node.keys], nulls_equal=True)
            self.built.domains.append(domain)
            return GroupOperator(label, inputs[0], node.keys, node.aggregates, domain)
        assert isinstance(node, TopNode)
        arranged = self.arranged(node.input, inputs[0], ())
        arranged.keeps = True
        last = "" if node.limit is None else f" {node.limit:,}"
        return TopOperator(f"top{last}", arranged, node.order, node.limit, node.offset)

    def _partition(self, node: PartitionNode) -> ViewOperator:
        rows = self._arranged(node.input, node.keys)
        rows.keeps = True
        label = _query_text(node, _names(node.input))
        made = PartitionOperator(label, node.types, rows, node.reads, node.query, adds_columns=node.adds_columns)
        self._made[node] = made
        self.built.operators.append(made)
        made.results = self.arranged(node, made, node.result_keys, "results by partition")
        made.results.keeps = True
        return made

    def _is_choice(self, node: ProjectNode) -> bool:
        """Return whether a projection only selects columns of an input without other uses."""
        return node.input in self._used_once and all(isinstance(each, InputColumn) for each in node.columns)

    def _filter(self, node: FilterNode, given: Sequence[Expression]) -> ViewOperator:
        """Return a filter that outputs some columns."""
        label = f"filter {shown(node.condition, _names(node.input))}"
        places = [each.index for each in given if isinstance(each, InputColumn)]
        return FilterOperator(label, self.operator(node.input), node.condition, places)

    def _is_static(self, node: PlanNode) -> bool:
        if isinstance(node, ScanNode):
            return node.source in self._static
        return all(self._is_static(each) for each in node.inputs)

    def _shared(self, node: JoinNode) -> ViewOperator:
        cluster = self._cluster(node)
        static = [self._is_static(part) for part in cluster.parts]
        place = {part: number for number, part in enumerate(cluster.order(static))}
        delta_paths = cluster.delta_paths(static)
        lookups: list[list[Lookup]] = []
        for delta_path in delta_paths:
            lookups.append([])
            for stage in delta_path.stages:
                arranged = self._arranged(cluster.parts[stage.part], stage.by)
                # Rows are looked up only if an input can change.
                arranged.keeps |= not all(static)
                is_changed = place[stage.part] < place[delta_path.part]
                lookups[-1].append(Lookup(stage.part, arranged, stage.keys, stage.condition, is_changed))
        paths = [
            JoinPath(delta_path.part, self._start(cluster, delta_path), delta_path.condition, tuple(stages))
            for delta_path, stages in zip(delta_paths, lookups, strict=True)
        ]
        used = {path.part: path.start for path in paths}
        used |= {each.part: each.arranged for path in paths for each in path.lookups}
        label = f"join on {_conditions(cluster)}" if cluster.conditions else "cross join"
        widths = [len(part.types) for part in cluster.parts]
        inputs = [used[part] for part in range(len(widths))]
        return JoinOperator(label, node.types, inputs, widths, paths, cluster.shown)

    def _arranged(self, node: PlanNode, keys: Keys) -> ArrangedOperator:
        return self.arranged(node, self.operator(node), keys)

    def _start(self, cluster: JoinCluster, path: DeltaPath) -> ArrangedOperator:
        """Return an arrangement that has the changes of an input: a stored one, preferably by the first keys."""
        part = cluster.parts[path.part]
        keys = tuple(shifted(key, -cluster.firsts[path.part]) for key in path.stages[0].keys)
        stored = [each for (node, _), each in self.arrangements.items() if node == part and each.keeps]
        return stored[0] if stored and (part, keys) not in self.arrangements else self._arranged(part, keys)

    # Joins that store their own rows

    def _join_and_filter(self, node: JoinNode) -> ViewOperator | None:
        """Return an inner join and a filter for conditions that read both sides in one value; None without them."""
        parts = conjuncts(node.condition)
        rest = [each for each in parts if not is_comparison(each, len(node.left.types))]
        if node.how != "inner" or not rest:
            return None
        joined = JoinNode(node.left, node.right, "inner", all_of([each for each in parts if each not in rest]))
        columns_shown = tuple(joined.every_column[place] for place in node.shown)
        return self.operator(ProjectNode(FilterNode(joined, all_of(rest)), columns_shown))

    def _stored_join(self, node: JoinNode) -> ViewOperator:
        sources: dict[Side, ViewOperator] = {"left": self.operator(node.left), "right": self.operator(node.right)}
        named: dict[Side, dict[str, Expression]] = {
            "left": {f"l{place}": each for place, each in enumerate(node.left.every_column)},
            "right": {f"r{place}": each for place, each in enumerate(node.right.every_column)},
        }
        width = len(node.left.types)
        names = [*(f"l{place}" for place in range(width)), *(f"r{place}" for place in range(len(node.right.types)))]
        spec = self._asof(node, named) if node.asof is not None else _where(node, named)
        label = f"{'as-of ' * (node.asof is not None)}{node.how} join"
        readable = [*_names(node.left), *_names(node.right)]
        if node.condition != TRUE:
            label += f" on {shown(node.condition, readable)}"
        if node.asof is not None:
            sign = (">" if node.asof.backward else "<") + "=" * (not node.asof.strict)
            label += (
                f" where {shown(node.asof.left, _names(node.left))} {sign} {shown(node.asof.right, _names(node.right))}"
            )
        sides: list[tuple[Side, list[str]]] = [("left", _names(node.left)), ("right", _names(node.right))]
        texts = {name: shown(each, readable) for side, readable in sides for name, each in named[side].items()}
        return SpecJoinOperator(label, node.types, sources, named, spec, [names[place] for place in node.shown], texts)

    def _asof(self, node: JoinNode, named: dict[Side, dict[str, Expression]]) -> Spec:
        match = node.asof
        assert match is not None
        keys, rest = _keys(node)
        assert not rest
        on = _named(named, "left", match.left), _named(named, "right", match.right)
        # An as-of join drops right keys, but the query may read them as nulls, so keys are added a second time.
        by = [(_named(named, "left", one), _added(named, "right", other)) for one, other in keys]
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


def _named(named: dict[Side, dict[str, Expression]], side: Side, value: Expression) -> str:
    """Return the name of a value among the columns of a side, and add it if it is new."""
    same = next((name for name, each in named[side].items() if each == value), None)
    return same or _added(named, side, value)


def _added(named: dict[Side, dict[str, Expression]], side: Side, value: Expression) -> str:
    name = f"{side[0]}{len(named[side])}"
    named[side][name] = value
    return name


def _where(node: JoinNode, named: dict[Side, dict[str, Expression]]) -> Spec:
    width = len(node.left.types)

    def text(condition: Expression) -> str:
        places = columns(condition)
        if places and max(places) < width:
            return f"l.{_named(named, 'left', condition)}"
        if places and min(places) >= width:
            return f"r.{_named(named, 'right', shifted(condition, -width))}"
        if isinstance(condition, Call) and condition.function in ("and", "or"):
            return f"({f' {condition.function} '.join(text(each) for each in condition.operands)})"
        if isinstance(condition, Call) and condition.function == "not":
            return f"(not {text(condition.operands[0])})"
        if isinstance(condition, Call) and condition.function in _COMPARED:
            one, other = condition.operands
            return f"({text(one)} {_COMPARED[condition.function]} {text(other)})"
        if not places:
            value = condition.value if isinstance(condition, Constant) else None
            return "null" if value is None else str(value).lower()
        raise SpecError(
            f"sql= has {shown(condition, [*_names(node.left), *_names(node.right)])} in the condition of an outer "
            "join. Expected comparisons of a value of one table with a value of the other.",
            name="JN-SQL-UNSUPPORTED",
        )

    predicate = " and ".join(text(each) for each in conjuncts(node.condition)) or "true"
    return Where(predicate, how=node.how, allow_cross=True)


def _keys(node: JoinNode) -> tuple[list[tuple[Expression, Expression]], list[Expression]]:
    """Return the pairs of equal keys, and the other conditions."""
    keys, rest = [], []
    for each in conjuncts(node.condition):
        pair = key_pair(each, len(node.left.types))
        if pair is None:
            rest.append(each)
        else:
            keys.append(pair)
    return keys, rest


def _is_bound(condition: Expression, width: int) -> bool:
    """Return whether a condition compares a left with a right value by order."""
    if not isinstance(condition, Call) or condition.function not in _BOUNDS:
        return False
    sides = [columns(each) for each in condition.operands]
    if not all(sides):
        return False
    return any(max(one) < width <= min(other) for one, other in (sides, sides[::-1]))


def _is_shared(node: JoinNode) -> bool:
    """Return whether a join matches by equal keys only, so that its indexes can be shared."""
    if node.how != "inner" or node.asof is not None:
        return False
    return not any(_is_bound(each, len(node.left.types)) for each in conjuncts(node.condition))


def _conditions(cluster: JoinCluster) -> str:
    """Return the conditions of a cluster as text."""
    names = [name for part in cluster.parts for name in _names(part)]
    texts = [
        " = ".join(shown(operand, names) for operand in each.operands)
        if isinstance(each, Call) and each.function == "equal"
        else shown(each, names)
        for each in cluster.conditions
    ]
    return " AND ".join(texts)


def _names(node: PlanNode) -> list[str]:
    """Return the display names of columns."""
    if isinstance(node, ScanNode):
        return [name for name, _ in node.columns]
    if isinstance(node, JoinNode):
        both = [*_names(node.left), *_names(node.right)]
        return [both[place] for place in node.shown]
    if isinstance(node, ProjectNode):
        names = _names(node.input)
        return [shown(each, names) for each in node.columns]
    if isinstance(node, GroupNode):
        names = _names(node.input)
        return [shown(each, names) for each in node.keys] + [_aggregate_name(each, names) for each in node.aggregates]
    if isinstance(node, PartitionNode | ExpandNode):
        own = _names(node.input)[: len(node.types)] if isinstance(node, ExpandNode) or node.adds_columns else []
        return [*own, *(f"column {place}" for place in range(len(own), len(node.types)))]
    if isinstance(node, EmptyNode):
        return [f"column {place}" for place in range(len(node.types))]
    return _names(node.inputs[0])


def _query_text(node: PartitionNode | ExpandNode, names: Sequence[str]) -> str:
    return node.query.shown([*(names[place] for place in node.reads), "row number"])


def _aggregate_name(aggregate: GroupAggregate, names: Sequence[str]) -> str:
    value = "*" if aggregate.value is None else shown(aggregate.value, names)
    return f"{aggregate.function}({'distinct ' * aggregate.distinct}{value})"


def _listed(values: Sequence[Expression], names: Sequence[str]) -> str:
    return ", ".join(shown(each, names) for each in values)
