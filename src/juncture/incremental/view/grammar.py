"""The parts of sqlglot's tree that views read. Other parts of a query raise an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PAIR = ("this", "expression")
_OF_ONE = (
    "Abs", "Boolean", "Ceil", "Day", "DayOfMonth", "DayOfYear", "Floor", "Hour", "Length", "Lower", "Minute", "Month",
    "Neg", "Not", "Null", "Paren", "Quarter", "Second", "Sqrt", "Trim", "Upper", "Week", "Year",
)  # fmt: skip
_OF_TWO = (
    "Add", "And", "Div", "EQ", "Extract", "GT", "GTE", "IntDiv", "Is", "LT", "LTE", "Mod", "Mul", "NEQ", "NullSafeEQ",
    "NullSafeNEQ", "Nullif", "Or", "Sub",
)  # fmt: skip

VALUES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_OF_ONE, ("this",)),
    **dict.fromkeys(_OF_TWO, _PAIR),
    "Alias": ("this", "alias"),
    "Between": ("this", "low", "high"),
    "Case": ("this", "ifs", "default"),
    "Cast": ("this", "to"),
    "Coalesce": ("this", "expressions"),
    "Column": ("this", "table"),
    # The flags match DuckDB's semantics: how NULL arguments are treated, and that / divides floats.
    "Concat": ("expressions", "safe", "coalesce"),
    "DPipe": (*_PAIR, "safe"),
    "DateTrunc": ("this", "unit"),
    "Greatest": ("this", "expressions", "ignore_nulls"),
    "ILike": (*_PAIR, "negate"),
    "If": ("this", "true", "false"),
    "In": ("this", "expressions", "query", "unnest"),
    "Least": ("this", "expressions", "ignore_nulls"),
    "Like": (*_PAIR, "negate"),
    "Literal": ("this", "is_string"),
    "Round": ("this", "decimals"),
    "Substring": ("this", "start", "length"),
    "TimestampTrunc": ("this", "unit"),
}
"""The arguments that views read of each value node."""

AGGREGATES: Mapping[str, tuple[str, ...]] = {
    "Avg": ("this",),
    "Count": ("this", "big_int"),
    "Max": ("this",),
    "Min": ("this",),
    "Sum": ("this",),
}
"""The arguments that views read of each aggregate node."""

_CLAUSES: Mapping[str, tuple[str, ...]] = {
    "CTE": ("this", "alias", "materialized"),
    "DataType": ("this", "expressions"),
    "Distinct": ("expressions",),
    "From": ("this",),
    "Group": ("expressions", "all"),
    "Having": ("this",),
    "Identifier": ("this", "quoted"),
    "Interval": ("this", "unit"),
    "Join": ("this", "side", "kind", "method", "on", "using", "match_condition"),
    "Limit": ("expression",),
    "Offset": ("expression",),
    "Order": ("expressions",),
    "Ordered": ("this", "desc", "nulls_first"),
    "Select": (
        "expressions", "distinct", "from", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
        "with", "with_",
    ),
    "Star": ("except_", "replace", "rename"),
    "Subquery": ("this", "alias", "with", "with_"),
    "Table": ("this", "alias", "db"),
    "TableAlias": ("this", "columns"),
    "Union": (*_PAIR, "distinct", "order", "limit", "offset", "with", "with_"),
    "Where": ("this",),
    "With": ("expressions", "recursive"),
}  # fmt: skip

_NAMES = {
    "by_name": "UNION BY NAME",
    "connect": "CONNECT BY",
    "cube": "CUBE",
    "grouping_sets": "GROUPING SETS",
    "joins": "joins in parentheses",
    "laterals": "LATERAL",
    "on": "DISTINCT ON",
    "pivots": "PIVOT",
    "qualify": "QUALIFY",
    "rollup": "ROLLUP",
    "sample": "samples",
    "windows": "window functions",
}
"""The names of clause arguments in messages."""

_READ = {**VALUES, **AGGREGATES, **_CLAUSES}


def unread(tree: Any) -> tuple[Any, str, str] | None:
    """Return the first part of a query that views do not read: its node, its description, and a hint.

    Nodes of classes without an entry above are rejected during translation.
    """
    for node in tree.walk():
        kind = type(node).__name__
        for name, value in node.args.items():
            if value and name not in _READ.get(kind, node.args):
                what = _NAMES.get(name) if kind in _CLAUSES else None
                part = value[0] if isinstance(value, list) else value
                has_place = hasattr(part, "walk") and any("start" in each.meta for each in part.walk())
                return part if what and has_place else node, what or node.sql("duckdb"), ""
        terms = [node.this] if kind == "Ordered" else node.expressions if kind == "Group" else []
        term = next((each for each in terms if _is_no_column(each, is_order=kind == "Ordered")), None)
        if term is not None:
            return (
                term,
                f"{'ORDER' if kind == 'Ordered' else 'GROUP'} BY a constant other than a column number",
                "",
            )
        if kind == "Select":
            join = _using_after_comma(node.args.get("joins") or [])
            if join is not None:
                return join.this, "USING after a comma", "Use ON."
    return None


def _is_no_column(term: Any, *, is_order: bool) -> bool:
    """Return whether a term is a constant that is not a column number. GROUP BY accepts non-integer constants."""
    value = term.this if type(term).__name__ == "Neg" else term
    if type(value).__name__ not in ("Literal", "Boolean", "Null"):
        return False
    is_integer = type(value).__name__ == "Literal" and not value.is_string and value.this.isdigit()
    return (value is not term or int(value.this) == 0) if is_integer else is_order


def is_comma(join: Any) -> bool:
    """Return whether a join is a comma, which binds less tightly than JOIN."""
    return not any(join.args.get(name) for name in ("side", "kind", "method", "on", "using"))


def _using_after_comma(joins: list[Any]) -> Any | None:
    """Return the first join by USING after a comma. Its columns come from the tables after the comma."""
    commas = [place for place, join in enumerate(joins) if is_comma(join)]
    after = joins[commas[0] :] if commas else []
    return next((join for join in after if join.args.get("using") or join.args.get("method") == "NATURAL"), None)
