"""Validation of key columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from juncture.columnar.types import key_kind
from juncture.errors import SchemaError
from juncture.spec.compared import ComparedColumns


def check_keys(columns: ComparedColumns, pairs: Sequence[tuple[str, str]], *, role: str = "by") -> None:
    """Raise SchemaError for pairs of columns whose types have no equality or no common values. Null matches all."""
    for left_name, right_name in pairs:
        left_field, right_field = columns.field("left", left_name), columns.field("right", right_name)
        kinds = key_kind(left_field.type), key_kind(right_field.type)
        for field, kind, side in ((left_field, kinds[0], "left"), (right_field, kinds[1], "right")):
            if "map" in kind:
                raise SchemaError(
                    f"The {side} {role} column {field.name!r} is of type {field.type}, and maps have no equality. "
                    "Join by its sorted entries, or by a string made from them.",
                    name="JN-TYPE-UNSUPPORTED",
                )
            if "interval" in kind or "union" in kind:
                raise SchemaError(
                    f"The {side} {role} column {field.name!r} is of type {field.type}, which has no equality. Cast "
                    "it first, for example to string.",
                    name="JN-TYPE-UNSUPPORTED",
                )
        if kinds[0] != kinds[1] and "null" not in kinds:
            pair = (
                f"{role}= compares left {left_field.name!r} ({left_field.type}) with right {right_field.name!r} "
                f"({right_field.type})"
            )
            if all(kind.startswith("timestamp") for kind in kinds):
                raise SchemaError(
                    f"{pair}, but only one of them has a time zone. Add a time zone to the other, or drop it from "
                    "both.",
                    name="JN-TIMEZONE-MISMATCH",
                )
            raise SchemaError(
                f"{pair}, which have no common values. Cast one of them to the type of the other.",
                name="JN-TYPE-MISMATCH",
            )


def can_be_key(data_type: pa.DataType) -> bool:
    """Return whether values of a type have equality.

    Examples
    --------
    >>> can_be_key(pa.string()), can_be_key(pa.map_(pa.string(), pa.int64()))
    (True, False)
    """
    return not any(kind in key_kind(data_type) for kind in ("map", "interval", "union"))
