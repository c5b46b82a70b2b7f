"""What there is to count of a join."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat

from fuzz.joins.cases import Case
from fuzz.kind import Facts

__all__ = ["facts", "type_name"]


def facts(case: Case) -> Facts:
    """Return what there is to count of a case that was run, by what it is about."""
    join = case.join
    arguments = join.arguments
    how = f"{arguments.get('how')}, aggregated" if "agg" in arguments else str(arguments.get("how"))
    types = {
        side: {column.name: type_name(column.type) for column in getattr(join, side).columns}
        for side in ("left", "right")
    }
    roles = {side: roles_of(arguments, side) for side in types}
    found: Facts = {
        "algorithms": [f"{join.kind} {case.algorithm}"],
        "how": [f"{join.kind} {how}"],
        "budgets": [f"{case.memory} bytes" if case.memory else "small pieces" if case.is_small else "all at once"],
    }
    for side, names in types.items():
        for name, type_ in names.items():
            found.setdefault(f"types of {roles[side].get(name, 'other columns')}", []).append(type_)
    return found


def roles_of(arguments: dict[str, object], side: str) -> dict[str, str]:
    """Return what columns are for, by their names."""
    roles: dict[str, str] = {}
    for argument in ("by", f"{side}_by", "on", f"{side}_on", f"{side}_interval"):
        named = arguments.get(argument) or ()
        is_key = isinstance(named, list)
        for name in [named] if isinstance(named, str) else named:
            roles[str(name)] = "keys" if is_key else "`on` and ends"
    return roles


def type_name(data_type: pa.DataType) -> str:
    """Return the name of a type without its numbers, zones and the types within."""
    if pat.is_dictionary(data_type) or pat.is_run_end_encoded(data_type):
        kind = "dictionary" if pat.is_dictionary(data_type) else "runs"
        return f"{kind} of {type_name(data_type.value_type)}"
    if pat.is_decimal(data_type):
        return f"decimal{data_type.bit_width}" + (" of negative scale" if data_type.scale < 0 else "")
    if pat.is_timestamp(data_type):
        return f"timestamp[{data_type.unit}]" + (" with zone" if data_type.tz else "")
    return str(data_type).split("<")[0].split("(")[0]
