"""Joins of large tables and streams by time or order, on Apache Spark and in-process over Arrow.

The names below are the whole public face. Each is imported when it is first used, so that ``import juncture`` costs
next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from juncture.errors import DataError, JunctureError, PlanError, SchemaError, SpecError, StateError
    from juncture.join import join_asof, plan
    from juncture.planner.plan import Plan
    from juncture.planner.stats import SideStats, Stats
    from juncture.predicate.bounds import bounds
    from juncture.spec.asof import Asof

__version__ = "0.1.0"

__all__ = [
    "Asof",
    "DataError",
    "JunctureError",
    "Plan",
    "PlanError",
    "SchemaError",
    "SideStats",
    "SpecError",
    "StateError",
    "Stats",
    "__version__",
    "bounds",
    "join_asof",
    "plan",
]

_HOME = {
    "Asof": "juncture.spec.asof",
    "DataError": "juncture.errors",
    "JunctureError": "juncture.errors",
    "Plan": "juncture.planner.plan",
    "PlanError": "juncture.errors",
    "SchemaError": "juncture.errors",
    "SideStats": "juncture.planner.stats",
    "SpecError": "juncture.errors",
    "StateError": "juncture.errors",
    "Stats": "juncture.planner.stats",
    "bounds": "juncture.predicate.bounds",
    "join_asof": "juncture.join",
    "plan": "juncture.join",
}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'juncture' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
