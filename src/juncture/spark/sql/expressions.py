"""Predicates and key expressions as Spark columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.predicate.language.nodes import Column as Named
from juncture.predicate.language.nodes import Node, walk
from juncture.predicate.language.sql import to_sql
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import Column

Names = Mapping[Side, Mapping[str, str]]
"""The SQL name of each column of both sides."""


def expression(node: Node, names: Names) -> Column:
    """Return an expression as a Spark column."""
    return F.expr(to_sql(_renamed(node, names), names=("", ""), guarded=True))


def _renamed(node: Node, names: Names) -> Node:
    """Return a node with renamed columns."""
    made: dict[Node, Node] = {}

    def renewed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(renewed(each) for each in value)
        return made[value] if isinstance(value, Node) else value

    for part in walk(node):
        if isinstance(part, Named):
            made[part] = replace(part, name=names[part.side][part.name])
        else:
            made[part] = replace(
                part, **{each.name: renewed(getattr(part, each.name)) for each in fields(part) if each.init}
            )
    return made[node]


def key_hash(keys: list[str]) -> Column:
    """Return a hash of a row's keys."""
    return F.xxhash64(*keys) if keys else F.lit(0).cast("long")
