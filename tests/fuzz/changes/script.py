"""A case of changes as a script to paste, which fails as the case does."""

from __future__ import annotations

import inspect

from fuzz.changes.cases import ChangeCase
from fuzz.compare import rows_of, shown
from fuzz.kind import Outcome
from fuzz.text import changing_text
from support.kinds import DEFINITIONS, SPECS
from support.state import SMALL_STATE, changes_in

__all__ = ["script"]

_HEAD = """\
import tempfile
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

import juncture as jn
from juncture import testing as reference
from juncture.incremental import join as joins
from juncture.incremental.state.policy import MemoryPolicy
from juncture.local.resources import resources_here
from juncture.spec.base import Spec
from juncture.testing.rows import values

nan, inf = float("nan"), float("inf")
"""

_FOLLOW = """\
def picked(pool, rows):
    return pa.concat_tables([pool.slice(0, 0), *(pool.slice(row, 1) for row in rows)])


def opened():
    return {opened}


state = {state}
join = opened()
there = {{side: Counter() for side in pools}}
for epoch in range({epochs}):
    changes = {{}}
    for side, pool in pools.items():
        weights = pa.array([weight for _, weight in epochs[side][epoch]], pa.int64())
        changes[side] = picked(pool, [row for row, _ in epochs[side][epoch]]).append_column("_weight", weights)
        for row, weight in epochs[side][epoch]:
            there[side][row] += weight
    now = {{side: picked(pool, sorted(there[side].elements())) for side, pool in pools.items()}}
    try:
        expected = sorted(rows_of(definition(spec.resolve(*(each.schema for each in now.values())), *now.values())))
    except jn.DataError:
        expected = "DataError"
    try:
        {apply}
    except jn.DataError:
        assert expected == "DataError", expected
        break
    if epoch in {reopened}:
        join.close()
        join = opened()
    answer = sorted(rows_of(join.result()))
    assert answer == expected, f"{{answer}}\\n{{expected}}"
"""


def script(case: ChangeCase, outcome: Outcome | None = None) -> str:
    """Return the text of a script that runs a case, and asserts that its rows are those of the reference."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in case.join.arguments.items())
    apply = "join.apply(**changes)"
    is_small = case.is_small and case.reopened is not None
    schemas = 'pools["left"].schema, pools["right"].schema'
    follow = _FOLLOW.format(
        opened=f"changes_in({schemas}, spec, state=state, policy={SMALL_STATE!r})"
        if is_small
        else f"jn.changes({schemas}, spec, state=state)",
        state="None" if case.reopened is None else 'Path(tempfile.mkdtemp()) / "state"',
        epochs=len(case.left),
        apply="join.apply(**changes) if epoch else join.populate(**changes)" if case.populates else apply,
        reopened=case.reopened or (),
    )
    parts = [
        _HEAD,
        *(inspect.getsource(function) for function in (shown, rows_of)),
        changing_text(case.tables()),
        f"spec = jn.{SPECS[case.join.kind].__name__}({arguments})",
        f"definition = reference.{DEFINITIONS[SPECS[case.join.kind]].__name__}",
        *([inspect.getsource(changes_in)] if is_small else []),
        follow,
    ]
    return "\n".join(parts)
