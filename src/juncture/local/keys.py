"""The keys of one side as codes, in a hash table or by their distance from the least key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from juncture.columnar.key_table import DenseKeys, KeyCodes, counts_steps
from juncture.kernels.array_types import Codes
from juncture.runtime.sources import Source
from juncture.runtime.zone_maps import ends_of_column
from juncture.spec.resolved import Resolved


class Keys(Protocol):
    """The distinct keys of one side, each with a code."""

    @property
    def count(self) -> int:
        """How many codes there are."""
        ...

    def add(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows of this side, `EMPTY` for those that cannot match."""
        ...

    def find(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows of the other side; `EMPTY` where no row added has the key."""
        ...


def key_types(join: Resolved) -> tuple[list[pa.DataType], list[pa.DataType]]:
    """Return the types of the left and of the right key columns."""
    return (
        [join.left_schema.field(name).type for name in join.left_by],
        [join.right_schema.field(name).type for name in join.right_by],
    )


def left_keys_of(join: Resolved, left: Source) -> Keys:
    """Return a table for the keys of a join's left side, to look up those of the right one."""
    types = key_types(join)
    dense = dense_keys_of(left, join.left_by, types, nulls_equal=join.nulls_equal)
    return KeyCodes(*types, nulls_equal=join.nulls_equal) if dense is None else dense


def dense_keys_of(
    source: Source,
    names: Sequence[str],
    types: tuple[Sequence[pa.DataType], Sequence[pa.DataType]],
    *,
    nulls_equal: bool,
) -> DenseKeys | None:
    """Return codes of keys in a narrow range; None if the range is wide, or not known without reading a file."""
    if len(names) != 1 or nulls_equal or not counts_steps(types[0][0]):
        return None
    return DenseKeys.of(types[0][0], types[1][0], ends_of_column(source, names[0]), source.num_rows)
