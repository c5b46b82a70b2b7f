"""The roles that a column can have in a join, each with joins that try it.

The values of a type are written as their *positions* in its order. A join of the values has to give what the same join
of their positions gives, and `juncture.testing` says what that is. So a join is written once for all types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where
from support.kinds import Spec, defined_rows

__all__ = ["ROLES", "SAMPLE", "Columns", "Join", "Positions", "Role", "Trial", "is_aggregate", "is_tried", "keeps_type"]

Positions = Sequence[int | None]
"""Of values in the order of their type; None for null."""

Columns = Mapping[str, Positions]
"""The columns of a table by name. Those that are not of a type that is tried are whole numbers."""


def is_tried(name: str) -> bool:
    """Tell whether a column of a table or of an answer has values of a type that is tried."""
    return name.startswith("x") and not name.endswith("_count")


def is_aggregate(name: str) -> bool:
    """Tell whether a column of an answer is an aggregate, which has the values of another but no metadata."""
    return name.endswith(("_sum", "_min", "_max", "_count", "_first", "_last"))


def keeps_type(name: str) -> bool:
    """Tell whether it is of the very type. A sum of one value may be of a wider one."""
    return is_tried(name) and not name.endswith("_sum")


@dataclass(frozen=True)
class Join:
    """A join of positions."""

    spec: Spec
    left: Columns
    right: Columns

    def answer(self) -> Columns:
        """Return the columns of the answer, by brute force, and but once: most types have the same."""
        key = repr(self)
        if key not in _ANSWERS:
            left, right = (
                pa.table({name: pa.array(positions, pa.int64()) for name, positions in side.items()})
                for side in (self.left, self.right)
            )
            _ANSWERS[key] = defined_rows(self.spec, left, right).to_pydict()
        return _ANSWERS[key]


_ANSWERS: dict[str, Columns] = {}


@dataclass(frozen=True)
class Trial:
    """A join in which columns of any type have a role.

    Attributes
    ----------
    spec
        Returns what is joined, by the names of these columns.
    left, right
        The tables, with ``x`` for such a column.
    is_shared
        Whether several types can be tried by one join. Each has a ``block`` of rows of its own, in which the columns
        of the others are all alike, so that it alone decides there.
    is_compared
        Whether the columns decide which rows match.
    """

    spec: Callable[[Sequence[str]], Spec]
    left: Columns
    right: Columns
    is_shared: bool = False
    is_compared: bool = False

    def join(self, names: Sequence[str] = ("x",)) -> Join:
        """Return the join in which columns of such names have the role; of one name unless it is shared."""
        if not self.is_shared:
            return Join(self.spec(names), self.left, self.right)
        return Join(self.spec(names), *(_in_blocks(side, names) for side in (self.left, self.right)))


def _in_blocks(side: Columns, names: Sequence[str]) -> Columns:
    """Repeat a table for each name, with the column ``x`` as that name there, and all alike elsewhere."""
    rows = len(side["t"])
    columns: dict[str, Positions] = {"block": [block for block in range(len(names)) for _ in range(rows)]}
    for name, positions in side.items():
        if not is_tried(name):
            columns[name] = [*positions] * len(names)
            continue
        for block, each in enumerate(names):
            columns[each] = [0] * rows * block + [*positions] + [0] * rows * (len(names) - block - 1)
    return columns


@dataclass(frozen=True)
class Role:
    """What a column is to a join.

    Attributes
    ----------
    name
        Its name on the page.
    trials
        Joins that try it. A type can have the role if all of them work.
    more
        Further ones, where a join takes little time: in-process.
    """

    name: str
    trials: tuple[Trial, ...]
    more: tuple[Trial, ...] = ()


SAMPLE: Columns = {name: [0, 1, 2, 3] for name in ("block", "row", "t", "x", "x_end", "number")}
"""Rows of all columns that the trials name, with all values of a type."""

LEFT = {"row": [0, 1, 2, 3, 4, 5], "t": [5, 5, 5, 5, 5, 5], "x": [2, 0, None, 3, 1, 2]}
RIGHT = {"t": [1, 2, 3, 4, 5], "x": [1, 3, None, 1, 2], "number": [0, 1, 2, 3, 4]}
INTERVALS = {"row": [0, 1, 2, 3], "x": [0, 1, None, 2], "x_end": [1, 3, 2, 2]}
MATCHED = {"row": [0, 1, 2, 3], "t": [1, 2, 4, 6], "x": [0, 1, None, 3]}
MATCHES = {"t": [1, 1, 2, 3, 4, 4], "x": [3, 2, None, 0, 1, 1], "number": [0, 1, 2, 3, 4, 5]}
UNTIED = {"t": [1, 2, 3, 4], "x": [3, None, 0, 1], "number": [0, 1, 2, 3]}
PLACES = {"row": [0, 1, 2], "t": [1, 2, 3]}
SINGLE = {"t": [1, 2, 3], "x": [3, None, 1]}
TIED = {
    "t": [1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3],
    "x": [1, 3, None, 0, 3, 2, None, 0, None, None, None],
    "number": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
}


def alone(spec: Spec, left: Columns = LEFT, right: Columns = RIGHT) -> Trial:
    """Return a trial of one type by a join that names its column."""
    return Trial(lambda _: spec, left, right)


def shared(spec: Callable[[Sequence[str]], Spec], left: Columns = LEFT, right: Columns = RIGHT) -> Trial:
    """Return a trial of any number of types."""
    return Trial(spec, left, right, is_shared=True)


def matched(spec: Callable[[Sequence[str]], Spec]) -> Trial:
    """Return a trial of any number of types that decide which rows match."""
    return Trial(spec, LEFT, RIGHT, is_shared=True, is_compared=True)


def compared(*conditions: str) -> Callable[[Sequence[str]], Spec]:
    """Return a predicate join with conditions on ``l.x`` and ``r.x``, for each column in place of it."""

    def predicate(names: Sequence[str]) -> Spec:
        each = [condition.replace(".x", f".{name}") for name in names for condition in conditions]
        return Where(" AND ".join(["l.block = r.block", *each]))

    return predicate


def aggregated(*functions: str) -> Callable[[Sequence[str]], Spec]:
    """Return a join with aggregates of each column over the matches."""
    return lambda names: Range(on="t", by="block", lower=0, upper=0, agg=dict.fromkeys(names, functions))


ROLES = (
    Role(
        "as-of `on`",
        (alone(Asof(on="x")),),
        (alone(Asof(on="x", direction="forward", allow_exact_matches=False, how="full", coalesce=False)),),
    ),
    Role(
        "range `on`",
        (alone(Range(on="x", lower=0, upper=0, how="left")),),
        (alone(Range(on="x", upper=0, how="full")),),
    ),
    Role(
        "interval",
        (alone(Overlap(left_interval=("x", "x_end"), right_interval=("x", "x_end")), INTERVALS, INTERVALS),),
        (alone(Overlap(left_interval=("x", "x_end"), right_interval=("x", None), how="left"), INTERVALS, RIGHT),),
    ),
    Role(
        "`by`, key",
        (
            matched(lambda names: Asof(on="t", by=["block", *names])),
            matched(lambda names: Equi(on=["block", *names], how="full")),
        ),
        (
            alone(Asof(on="t", by="x", how="full")),
            alone(Range(on="t", by="x", upper=0)),
            alone(Equi(on="x", nulls_equal=True)),
        ),
    ),
    Role(
        "`l.x = r.x`",
        (matched(compared("l.x = r.x", "l.x <=> r.x")),),
        (
            alone(Where("l.x <=> r.x", how="full")),
            alone(Where("l.x = r.x AND (l.t >= r.t OR l.row > r.number)", how="left")),
            alone(Equi(on="t", where="l.x <=> r.x", how="left")),
        ),
    ),
    Role(
        "`l.x < r.x`",
        (matched(compared("l.x <= r.x", "r.x >= l.x", "NOT (l.x > r.x OR r.x < l.x)")),),
        (alone(Where("l.x < r.x", how="left")), alone(Equi(on="t", where="l.x >= r.x"))),
    ),
    Role("`sum`", (shared(aggregated("sum"), PLACES, SINGLE),)),
    Role("`min`, `max`", (shared(aggregated("min", "max"), MATCHED, MATCHES),)),
    Role(
        "payload",
        (
            shared(lambda _: Asof(on="t", by="block", tolerance=0, ties="error"), MATCHED, UNTIED),
            shared(lambda _: Equi(on=["block", "t"], how="full"), MATCHED, MATCHES),
            shared(aggregated("count"), MATCHED, MATCHES),
        ),
        (shared(lambda _: Where("l.block = r.block AND l.t < r.t"), MATCHED, MATCHES),),
    ),
    Role(
        "tie",
        (
            shared(lambda _: Asof(on="t", by="block"), PLACES, TIED),
            shared(aggregated("first", "last"), MATCHED, MATCHES),
        ),
        (alone(Asof(on="t", matches=2), PLACES, TIED),),
    ),
)
"""All that a column can be."""
