"""Write the page of the SQL functions that views support: ``python tools/sql_functions.py``.

Each signature of each function that DuckDB lists is bound in a query of a view. The plan of the view says whether the
function is compiled or DuckDB evaluates it. Functions that need constants or nested values have calls of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from juncture.errors import SpecError
from juncture.incremental.expressions.expression import Constant
from juncture.incremental.plan.nodes import PlanNode, ProjectNode, QueryNode
from juncture.incremental.sql.binder import quoted
from juncture.incremental.sql.reader import read_query

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "sql-functions.md"

HEAD = """# SQL functions in views

`python tools/sql_functions.py` writes this page: it binds the signatures of all functions of DuckDB {version} in
[views](sql.md).

| in views | meaning |
| --- | --- |
| compiled | Arrow evaluates the function, and aggregates are updated |
| by DuckDB | DuckDB evaluates the function for the changed rows, and aggregates and windows for the changed groups |
| no | not supported, because of a type that views do not have, or a value that is not the same in each call |
| not checked | accepts values that the script does not have, such as the state of an aggregate |

Some functions are compiled for some types, and DuckDB evaluates them for others.
"""

KINDS = {"scalar": "Operators and functions of rows", "aggregate": "Aggregates", "window": "Window functions"}

COLUMNS = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINTEGER": pa.uint32(), "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "DECIMAL": pa.decimal128(9, 3), "VARCHAR": pa.string(),
    "BLOB": pa.binary(), "DATE": pa.date32(), "TIME": pa.time64("us"), "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"), "INTERVAL": pa.duration("us"),
}  # fmt: skip
"""The columns of the table that queries read, by DuckDB's names of their types."""

LIST, PAIR, LAMBDA = '["BIGINT"]', 'CAST(["DOUBLE", "DOUBLE"] AS DOUBLE[2])', "lambda x: x > 1"
STRUCT, MAP, ENUM = "{'a': \"BIGINT\"}", 'MAP {1: "BIGINT"}', "CAST(\"VARCHAR\" AS ENUM('a', 'b'))"

CALLS = {
    **dict.fromkeys(("aggregate", "array_aggr", "array_aggregate", "list_aggr", "list_aggregate"), f"{LIST}, 'sum'"),
    **dict.fromkeys(("apply", "array_apply", "list_apply", "array_transform", "list_transform"), f"{LIST}, {LAMBDA}"),
    **dict.fromkeys(("filter", "array_filter", "list_filter"), f"{LIST}, {LAMBDA}"),
    **dict.fromkeys(("reduce", "array_reduce", "list_reduce"), f"{LIST}, lambda x, y: x + y"),
    **dict.fromkeys(("quantile", "quantile_cont", "quantile_disc", "approx_quantile"), '"BIGINT", 0.5'),
    **dict.fromkeys(("array_slice", "list_slice"), f"{LIST}, 1, 2"),
    **dict.fromkeys(("array_zip", "list_zip"), f"{LIST}, {LIST}"),
    **dict.fromkeys(("enum_code", "enum_first", "enum_last", "enum_range"), ENUM),
    **dict.fromkeys(("row_to_json", "struct_keys", "struct_values"), STRUCT),
    **dict.fromkeys(("struct_extract", "struct_has", "struct_indexof", "struct_position"), f"{STRUCT}, 'a'"),
    **dict.fromkeys(("struct_insert", "struct_update"), f"{STRUCT}, a := 1"),
    **dict.fromkeys(("strptime", "try_strptime"), "\"VARCHAR\", '%Y'"),
    **dict.fromkeys(("union_extract", "union_tag"), 'union_value(a := "BIGINT")'),
    **dict.fromkeys(("currval", "nextval"), "'s'"),
    "approx_top_k": '"BIGINT", 2',
    "array_to_json": LIST,
    "cardinality": MAP,
    "constant_or_null": '1, "BIGINT"',
    "create_sort_key": "\"BIGINT\", 'ASC'",
    "current_schemas": "true",
    "current_setting": "'TimeZone'",
    "decimal_division": '"DECIMAL", CAST("BIGINT" AS DECIMAL(4, 1))',
    "enum_range_boundary": f"{ENUM}, NULL",
    "getvariable": "'x'",
    "icu_sort_key": "\"VARCHAR\", 'de'",
    "invoke": f'{LAMBDA}, "BIGINT"',
    "json_object": "'a', \"BIGINT\"",
    "json_serialize_plan": '"VARCHAR"',
    "json_serialize_sql": '"VARCHAR"',
    "lttb": '"DOUBLE", "DOUBLE", 3',
    "map_concat": f"{MAP}, {MAP}",
    "reservoir_quantile": '"BIGINT", 0.5',
    "setval": "'s', 1",
    "struct_concat": f"{STRUCT}, {{'b': 1}}",
    "struct_contains": f"{STRUCT}, 1",
    "struct_extract_at": f"{STRUCT}, 1",
    "union_value": 'a := "BIGINT"',
    "write_log": "'x'",
}
"""Arguments of functions that accept only some values of the types in their signatures."""


def calls(function: str, kind: str, parameters: list[str], varargs: str | None) -> Iterator[str]:
    """Yield calls of a function as SQL. At least one should be valid."""
    if kind == "window":
        yield f'{function}({", ".join(argument(each) for each in parameters)}) OVER (ORDER BY "BIGINT")'
        return
    arguments = [argument(each) for each in [*parameters, *([varargs] if varargs else [])]]
    if not function[0].isalpha() and len(arguments) in (1, 2):
        yield f"({arguments[0]} {function} {arguments[1]})" if len(arguments) == 2 else f"({function} {arguments[0]})"
    yield f"{quoted(function)}({', '.join(arguments)})"
    yield f"{quoted(function)}({CALLS.get(function, f'{PAIR}, {PAIR}')})"


def argument(type_name: str) -> str:
    """Return a value of a type as SQL."""
    name = re.sub(r"\b(ANY|T|K|V|INTEGER_LITERAL)\b", "BIGINT", type_name).replace("STRING_LITERAL", "VARCHAR")
    if name in COLUMNS:
        return quoted(name)
    element = name.removesuffix("[]")
    return f"[{quoted(element)}]" if element != name and element in COLUMNS else f"CAST(NULL AS {name})"


def outcome(call: str) -> str:
    """Return whether views compile a call, DuckDB evaluates it, or why it is refused; empty for an invalid call."""
    # DuckDB creates the table for each query, so it has only the columns that the call reads.
    columns = [each for each in COLUMNS.items() if quoted(each[0]) in call] or [("BIGINT", pa.int64())]
    try:
        node = read_query(f"SELECT {call} FROM t", {"t": pa.schema(columns)}).node
    except SpecError as error:
        refusal = re.search(r"Views do not support ([^\n]*)\.", str(error))
        return f"no: {refusal[1].split('whose')[-1].strip()}" if refusal else ""
    return "compiled" if is_compiled(node) else "by DuckDB"


def is_compiled(node: PlanNode) -> bool:
    """Return whether a plan has no queries of DuckDB, and reads a column."""
    if isinstance(node, QueryNode) or "DuckQuery(" in repr(node):
        return False
    values = node.columns if isinstance(node, ProjectNode) else ()
    return not values or not all(isinstance(each, Constant) for each in values)


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and outcome of each function."""
    functions: dict[tuple[str, str], list[str]] = {}
    signatures = duckdb.connect().execute(
        "SELECT DISTINCT function_name, function_type, parameter_types, varargs FROM duckdb_functions() "
        "WHERE function_type IN ('scalar', 'aggregate', 'window') AND function_name NOT LIKE '\\_\\_%' ESCAPE '\\' "
        "AND function_name NOT LIKE 'icu\\_collate%' ESCAPE '\\' ORDER BY ALL"
    )
    for function, kind, parameters, varargs in signatures.fetchall():
        outcomes = (outcome(call) for call in calls(function, kind, parameters, varargs))
        functions.setdefault((kind, function), []).append(next((each for each in outcomes if each), ""))
    for (kind, function), each in functions.items():
        supported = [name for name in ("compiled", "by DuckDB") if name in each]
        refused = [name for name in dict.fromkeys(each) if name.startswith("no")]
        yield kind, function, "; other types ".join(supported) or (refused[0] if refused else "")


def page() -> str:
    """Return the page as Markdown."""
    lines = [HEAD.format(version=duckdb.__version__)]
    functions = list(rows())
    for kind, title in KINDS.items():
        lines += [f"## {title}\n", "| function | in views |", "| --- | --- |"]
        for _, function, each in (row for row in functions if row[0] == kind):
            name = function.replace("|", "\\|")
            lines.append(f"| `{name}` | {each or 'not checked'} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
