"""The kinds of join, each with its spec and its definition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from juncture import testing as reference
from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where

__all__ = ["SPECS", "Spec", "defined_rows", "kind_of"]

Spec = Asof | Range | Overlap | Where | Equi

SPECS: dict[str, type[Any]] = {"asof": Asof, "range": Range, "overlap": Overlap, "where": Where, "equi": Equi}

DEFINITIONS = {
    Asof: reference.asof_join,
    Range: reference.range_join,
    Overlap: reference.overlap_join,
    Where: reference.where_join,
    Equi: reference.equi_join,
}


def kind_of(spec: Spec) -> str:
    """Return the name of a spec's kind."""
    return next(kind for kind, spec_type in SPECS.items() if isinstance(spec, spec_type))


def defined_rows(spec: Spec, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return the rows that a join has to give, by brute force."""
    return DEFINITIONS[type(spec)](spec.resolve(left.schema, right.schema), left, right)
