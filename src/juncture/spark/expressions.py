"""Expressions of predicates as Spark columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.predicate.nodes import Column as Named
from juncture.predicate.nodes import Node
from juncture.predicate.sql import to_sql
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["Names", "expression"]

Names = Mapping[Side, Mapping[str, str]]
"""What the columns of both sides are called in SQL."""


def expression(node: Node, names: Names) -> Column:
    """Return an expression as a Spark column."""
    return F.expr(to_sql(_renamed(node, names), names=("", ""), guarded=True))


def _renamed(node: Any, names: Names) -> Any:
    """Return a node whose columns have other names."""
    if isinstance(node, tuple):
        return tuple(_renamed(part, names) for part in node)
    if isinstance(node, Named):
        return replace(node, name=names[node.side][node.name])
    if not isinstance(node, Node):
        return node
    return replace(node, **{field.name: _renamed(getattr(node, field.name), names) for field in fields(node)})
