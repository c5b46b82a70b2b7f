"""The columns of a join's output."""

from __future__ import annotations

from collections.abc import Sequence

from juncture.columnar.types import plain_type
from juncture.errors import SchemaError
from juncture.spec.compared import ComparedColumns
from juncture.spec.schema import How, OutputColumn, left_columns


def output_columns(
    columns: ComparedColumns, *, how: How, equal: Sequence[tuple[str, str]], suffix: str, has_right: bool = True
) -> tuple[OutputColumn, ...]:
    """Return the columns of a join's output: the left ones, then the right ones that do not repeat a left one.

    ``equal`` has pairs of left and right columns that agree in every match: the output omits the right one, which fills
    the left one in unmatched right rows. Without ``has_right``, the output has the left columns only. Raises
    SchemaError if a name is taken even with the suffix, or types differ.
    """
    if not has_right or how in ("semi", "anti"):
        return left_columns(columns.own("left"))
    repeated = [
        (left, right, columns.own_name("left", left), columns.own_name("right", right)) for left, right in equal
    ]
    fills: dict[str, tuple[str, str]] = {}
    for left_key, right_key, left_name, right_name in repeated:
        if left_name is None or right_name is None or how not in ("right", "full"):
            continue
        one, other = columns.type("left", left_key), columns.type("right", right_key)
        if plain_type(one) != plain_type(other):
            raise SchemaError(
                f"how={how!r} writes {right_name!r} ({other}) of unmatched right rows into the left column "
                f"{left_name!r} ({one}), but the types differ. Cast one of them first.",
                name="JN-FILL-TYPE",
            )
        fills[left_name] = left_key, right_key
    shown = columns.own("left").names
    output = [OutputColumn(name, "left", *fills.get(name, (name,))) for name in shown]
    taken = set(shown)
    dropped = {right_name for _, _, left_name, right_name in repeated if left_name is not None}
    for name in columns.own("right").names:
        if name in dropped:
            continue
        output_name = name if name not in taken else name + suffix
        if output_name in taken:
            raise SchemaError(
                f"Right column {name!r} would be named {output_name!r}, which is already a column. Pass another "
                f"suffix= (now {suffix!r}), or rename the column.",
                name="JN-OUTPUT-COLUMN-TAKEN",
            )
        taken.add(output_name)
        output.append(OutputColumn(output_name, "right", name))
    return tuple(output)
