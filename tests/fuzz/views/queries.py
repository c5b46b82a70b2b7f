"""Random queries: expressions, groups, joins, unions and the first rows, as values whose parts can be left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from fuzz.views.relations import LEAVES, relation
from fuzz.views.terms import KINDS, Scope, Term, condition, simpler, term

__all__ = ["Query", "narrower", "random_query"]

EXPRESSIONS = 8
"""How many expressions a query of nothing else has."""

AGGREGATES = {
    "int": ["count({})", "count(DISTINCT {})", "sum({})", "sum(DISTINCT {})", "avg({})", "min({})", "max({})"],
    "decimal": ["count({})", "sum({})", "sum(DISTINCT {})", "avg({})", "avg(DISTINCT {})", "min({})", "max({})"],
    "float": ["count({})", "count(DISTINCT {})", "min({})", "max({})"],
}
OTHER_AGGREGATES = ["count({})", "count(DISTINCT {})", "min({})", "max({})"]
ROUNDED = ["sum({})", "avg({})", "sum(DISTINCT {})"]
"""Aggregates of floats, which DuckDB adds in some order."""

JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")


@dataclass(frozen=True)
class Query:
    """A query.

    Attributes
    ----------
    shape
        ``expressions``, ``groups``, ``join``, ``distinct``, ``union``, ``first`` or ``relations``.
    scope
        The columns that its expressions may read.
    items
        What is selected, less the keys of groups.
    source
        What stands behind FROM.
    groups
        The keys.
    where, having
        Conditions; None for none.
    tail
        What comes last, such as a limit.
    other
        The query that a union adds, and how.
    number
        The number of the row, which keeps equal rows apart; empty where rows have none.
    """

    shape: str
    scope: Scope
    items: tuple[Term, ...]
    source: str = "a"
    groups: tuple[Term, ...] = ()
    where: Term | None = None
    having: Term | None = None
    tail: str = ""
    other: tuple[str, Query] | None = None
    number: str = "id"

    def __str__(self) -> str:
        if self.shape == "relations":
            return str(self.items[0])
        selected = [*([self.number] if self.number else []), *map(str, self.groups)]
        selected += [f"{item} AS c{place}" for place, item in enumerate(self.items)]
        clauses = [
            f"SELECT {'DISTINCT ' if self.shape == 'distinct' else ''}{', '.join(selected)}",
            f"FROM {self.source}",
            *([f"WHERE {self.where}"] if self.where else []),
            *([f"GROUP BY {', '.join(map(str, self.groups))}"] if self.groups else []),
            *([f"HAVING {self.having}"] if self.having else []),
            *([f"{self.other[0]} {self.other[1]}"] if self.other else []),
            *([self.tail] if self.tail else []),
        ]
        return " ".join(clauses)

    def changed(self, change: Callable[[Term], Term]) -> Query:
        """Return the query with each of its expressions changed."""
        return replace(
            self,
            items=tuple(map(change, self.items)),
            groups=tuple(map(change, self.groups)),
            where=self.where and change(self.where),
            having=self.having and change(self.having),
            other=self.other and (self.other[0], self.other[1].changed(change)),
        )

    def rounded(self, names: list[str]) -> list[str]:
        """Return the columns of a result that DuckDB has right but for the last digits."""
        count = len(names) - len(self.items)
        items = zip(names[count:], self.items, strict=True)
        return [name for name, item in items if item.kind == "float" and item.form.startswith(("sum", "avg"))]


def random_query(chance: Random, scopes: dict[str, Scope]) -> Query:
    """Return a random query over the tables ``a`` and ``b``, given their columns by kind."""
    if chance.random() < 0.4:
        tree = relation(chance, chance.choice([1, 2, 2, 3]))
        return Query("relations", {"relation": LEAVES}, (tree,), number="")
    shape = chance.choice(["expressions"] * 5 + ["groups"] * 2 + ["join", "join", "distinct", "union", "first"])
    scope = scopes["a"]

    def some(count: int, depth: int) -> tuple[Term, ...]:
        return tuple(term(chance, scope, chance.choice(KINDS), chance.randint(1, depth)) for _ in range(count))

    where = condition(chance, scope) if chance.random() < 0.3 else None
    if chance.random() < 0.15 and scopes["b"].get("int"):
        where = subquery_of(chance, scopes)
    if shape == "expressions" and chance.random() < 0.1:
        return Query(shape, scope, windows_of(chance, scope), where=where)
    if shape == "expressions":
        return Query(shape, scope, some(EXPRESSIONS, 3), source_of(chance), where=where)
    if shape == "groups":
        groups = some(chance.choice([0, 1, 1, 1, 2]), 1)
        groups = tuple(each for each in groups if each.parts or each.form in scope.get(each.kind, []))
        items = tuple(aggregate(chance, scope) for _ in range(chance.randint(1, 4)))
        having = having_of(chance, scope) if chance.random() < 0.3 else None
        return Query(shape, scope, items, source_of(chance), groups, where, having, number="")
    if shape == "join":
        both = {kind: [*scopes["a"].get(kind, []), *scopes["b"].get(kind, [])] for kind in KINDS}
        scope = both
        where = condition(chance, both) if chance.random() < 0.3 else None
        return Query(shape, both, some(3, 2), join_of(chance, scopes), where=where, number="a.id, b.id AS other")
    if shape == "distinct":
        return Query(shape, scope, some(chance.randint(1, 2), 2), where=where, number="")
    if shape == "union":
        one = some(2, 2)
        other = Query("plain", scope, tuple(term(chance, scope, each.kind, 1) for each in one), number="")
        how = chance.choice(["UNION ALL", "UNION"])
        return Query(shape, scope, one, where=where, other=(how, other), number="")
    by = " ".join(
        [str(some(1, 1)[0]), chance.choice(["", "ASC", "DESC"]), chance.choice(["", "NULLS FIRST", "NULLS LAST"])]
    )
    tail = f"ORDER BY {by}, id LIMIT {chance.randint(0, 4)}{chance.choice(['', ' OFFSET 1'])}"
    return Query(shape, scope, some(2, 2), where=where, tail=tail)


SUBQUERIES = [
    "({} IN (SELECT {} FROM b))",
    "({} NOT IN (SELECT {} FROM b))",
    "({} NOT IN (SELECT {} FROM b WHERE {} IS NOT NULL))",
    "(EXISTS (SELECT 1 FROM b WHERE {} = {}))",
    "(NOT EXISTS (SELECT 1 FROM b WHERE {} = {} AND b.id <> a.id))",
    "({} > (SELECT max({}) FROM b WHERE b.id = a.id))",
    "({} <> ALL (SELECT {} FROM b WHERE b.id >= a.id))",
    "(coalesce({} IN (SELECT {} FROM b WHERE b.id = a.id), TRUE))",
]


def subquery_of(chance: Random, scopes: dict[str, Scope]) -> Term:
    """Return a condition with a subquery over the table ``b``."""
    outer, inner = (Term("int", chance.choice(scopes[name]["int"])) for name in ("a", "b"))
    form = chance.choice(SUBQUERIES)
    return Term("bool", form, (outer, inner, inner)[: form.count("{}")])


WINDOWS = [
    "rank() OVER (ORDER BY {})",
    "dense_rank() OVER (PARTITION BY {} ORDER BY {})",
    "count({}) OVER (PARTITION BY {})",
    "min({}) OVER (ORDER BY {})",
    "first_value({}) OVER (PARTITION BY {} ORDER BY id DESC)",
]
SPLITTING = [
    "row_number() OVER (PARTITION BY {} ORDER BY id)",
    "max({}) OVER (PARTITION BY {} ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "lag({}) OVER (ORDER BY id)",
]
"""Windows that differ between equal rows. With two of them, SQL does not define which values are in one row."""


def windows_of(chance: Random, scope: Scope) -> tuple[Term, ...]:
    """Return window functions of columns."""
    names = [name for kind in KINDS if kind != "float" for name in scope.get(kind, [])]
    forms = [chance.choice(WINDOWS) for _ in range(chance.randint(1, 3))]
    if chance.random() < 0.6:
        forms[chance.randrange(len(forms))] = chance.choice(SPLITTING)
    return tuple(
        Term("any", form, tuple(Term("any", chance.choice(names)) for _ in range(form.count("{}")))) for form in forms
    )


def source_of(chance: Random) -> str:
    """Return the table, now and then by way of a subquery."""
    return chance.choice(["a", "a", "a", "(SELECT * FROM a) AS a"])


def aggregate(chance: Random, scope: Scope) -> Term:
    """Return a random aggregate. Floats are added that are neither infinite nor so large that their sum may be."""
    if chance.random() < 0.1:
        return Term("int", "count(*)")
    if scope.get("moderate") and chance.random() < 0.2:
        return Term("float", chance.choice(ROUNDED), (Term("float", chance.choice(scope["moderate"])),))
    kind = chance.choice(KINDS)
    form = chance.choice(AGGREGATES.get(kind, OTHER_AGGREGATES))
    is_rounded = form.startswith(("avg", "sum"))
    given = "float" if form.startswith("avg") else "int" if form.startswith("count") else kind
    return Term(given, form, (term(chance, scope, kind, 1 if is_rounded else 2),))


def having_of(chance: Random, scope: Scope) -> Term:
    kind = chance.choice(["int", "decimal", "text"])
    function = chance.choice(["min", "max"])
    forms = [
        ("(count({}) > 1)", kind),
        (f"({function}({{}}) IS NOT NULL)", kind),
        (f"({function}({{}}) <> 1)", "int"),
        ("(sum({}) > 0)", "int"),
    ]
    form, kind = chance.choice(forms)
    return Term("bool", form, (term(chance, scope, kind, 1),))


def join_of(chance: Random, scopes: dict[str, Scope]) -> str:
    """Return a join of both tables."""
    kinds = [kind for kind in KINDS if scopes["a"].get(kind) and scopes["b"].get(kind)]
    how = chance.choice(JOINS)

    def compared(operator: str) -> str:
        kind = chance.choice(kinds)
        return f"{chance.choice(scopes['a'][kind])} {operator} {chance.choice(scopes['b'][kind])}"

    form = chance.random()
    if form < 0.08:
        return chance.choice(["a CROSS JOIN b", "a, b"])
    if form < 0.45:
        return f"a {how} b ON {compared('=')}"
    if form < 0.7:
        return f"a {how} b ON {compared('=')} AND {compared(chance.choice(['<', '>=', '<>', '<=', '>', '=']))}"
    if form < 0.8:
        return f"a {how} b ON {compared(chance.choice(['<', '>=']))}"
    if form < 0.9:
        return f"a {chance.choice(['JOIN', 'LEFT JOIN'])} b ON {compared('=')} JOIN b AS c ON b.id = c.id"
    return f"a, b AS c {how} b ON c.id = b.id"


def narrower(query: Query) -> Iterator[Query]:
    """Yield queries that are a little smaller."""
    for size in dict.fromkeys((len(query.items) // 2, 1)):
        if query.other is None and len(query.items) > 1:
            for start in range(0, len(query.items), size):
                rest = (*query.items[:start], *query.items[start + size :])
                yield from (replace(query, items=items) for items in (query.items[start : start + size], rest) if items)
    yield from (replace(query, **{name: None}) for name in ("where", "having", "other") if getattr(query, name))
    if query.source != "a" and query.shape in ("expressions", "groups"):
        yield replace(query, source="a")
    if len(query.groups) > 1:
        yield from (replace(query, groups=(each,)) for each in query.groups)
    if query.shape == "first":
        yield replace(query, shape="expressions", tail="")
    if query.shape == "join":
        yield replace(query, items=())
    for name in ("items", "groups"):
        terms = getattr(query, name)
        for place, each in enumerate(terms):
            for other in simpler(each, query.scope):
                # A constant in a place of GROUP BY is the number of a column.
                if name == "items" or other.parts or other.form in query.scope.get(other.kind, []):
                    yield replace(query, **{name: (*terms[:place], other, *terms[place + 1 :])})
    for name in ("where", "having"):
        whole = getattr(query, name)
        if whole is not None and (name == "where" or whole.parts):
            yield from (replace(query, **{name: other}) for other in simpler(whole, query.scope))
