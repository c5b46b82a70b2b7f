"""The kinds of join."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where

Spec = Asof | Range | Overlap | Where | Equi

KINDS: Mapping[str, type[Spec]] = MappingProxyType({spec.kind: spec for spec in get_args(Spec)})
"""The spec of each kind, by the name that `Spec.to_dict` writes."""
