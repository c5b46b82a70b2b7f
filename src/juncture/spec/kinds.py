"""The kinds of join."""

from __future__ import annotations

from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where

Spec = Asof | Range | Overlap | Where | Equi
