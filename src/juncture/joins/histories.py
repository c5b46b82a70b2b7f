"""`history` and `align`: the versions of rows with the times in which they are valid, and joins of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Never

import pyarrow.types as pat

from juncture.columnar.schemas import check_columns, check_order
from juncture.columnar.types import plain_type
from juncture.errors import PlanError, SchemaError, SpecError
from juncture.inputs.kinds import choose_engine
from juncture.inputs.tables import InputTable
from juncture.joins.execution import refuse_unknown
from juncture.spec.arguments import check_choice, check_name, check_suffix, names_of
from juncture.spec.compared import ComparedColumns, check_keys
from juncture.spec.schema import free_name


def history(
    rows: Any,
    *,
    key: str | Sequence[str],
    on: str = "ts",
    deleted: str | None = None,
    snapshots: bool = False,
    ties: Literal["first", "last", "error"] = "error",
    valid_from: str = "valid_from",
    valid_to: str = "valid_to",
    **unknown: Never,
) -> Any:
    """Return when each version of a row is valid, from a table of versions or of snapshots.

    A version is valid from its ``on`` (inclusive) to the next version of its key (exclusive). Consecutive equal
    versions are merged. The input need not be sorted.

    Parameters
    ----------
    rows
        The versions: any in-process input of `join_asof`. Spark DataFrames are not supported.
    key
        The column that identifies a row, or a list.
    on
        The column with the time from which a version is valid: any ordered type.
    deleted
        A boolean column that is true where a key is deleted at ``on``. It is not in the result.
    snapshots
        Whether all rows with equal ``on`` are a complete copy of the table at that time. A key that is missing in a
        snapshot is deleted at its time.
    ties
        What to do if two versions of a key have the same ``on``: ``"error"`` (default), or keep the ``"first"`` or
        ``"last"`` in the order of the rows.
    valid_from, valid_to
        The names of the start and the end in the result.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame, polars.LazyFrame or DuckDB relation
        The columns of ``rows`` without ``on`` and ``deleted``, then the start and the end, with the type of ``rows``.
        The end of a version that is still valid is null. Ordered by key (in the order of first occurrence), then by
        start.

    Raises
    ------
    SpecError
        If an argument has an invalid value.
    SchemaError
        If a column is missing or has an unsupported type.
    PlanError
        If the input is a Spark DataFrame.
    DataError
        If ``key`` or ``on`` is null or NaN, or if two versions of a key have the same ``on``.

    Notes
    -----
    Time O(n log n), memory O(n). Values are compared exactly: null equals null, and NaN equals NaN.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> changes = pa.table({"id": [1, 1, 1, 2], "ts": [10, 20, 30, 10], "status": ["new", "new", "paid", "new"]})
    >>> jn.history(changes, key="id").to_pydict()
    {'id': [1, 1, 2], 'status': ['new', 'paid', 'new'], 'valid_from': [10, 30, 10], 'valid_to': [30, None, None]}
    >>> jn.history(changes, key="id", snapshots=True).slice(2).to_pydict()
    {'id': [2], 'status': ['new'], 'valid_from': [10], 'valid_to': [20]}
    """
    refuse_unknown(history, unknown)
    from juncture.local.many import histories as in_process

    keys, interval = names_of("key", key), _interval(valid_from, valid_to)
    check_choice("ties", ties, ("first", "last", "error"))
    check_name("on", on)
    if deleted is not None:
        check_name("deleted", deleted)
        if snapshots:
            raise SpecError(
                f"deleted={deleted!r} and snapshots=True conflict: in snapshots, missing keys are deleted. Remove one.",
                name="JN-ARGUMENT-CONFLICT",
            )
    roles = (*keys, on) if deleted is None else (*keys, on, deleted)
    if len(set(roles)) < len(roles):
        raise SpecError(
            f"key={list(keys)!r}, on={on!r} and deleted={deleted!r} name a column twice. Remove the duplicate.",
            name="JN-COLUMN-REPEATED",
        )
    opened = _opened(rows, "history")
    schema = opened.schema
    for argument, names in {"key": keys, "on": (on,), "deleted": roles[len(keys) + 1 :]}.items():
        check_columns(schema, names, argument=argument, side="left")
    check_keys(ComparedColumns(schema, schema), [(name, name) for name in keys], role="key")
    check_order(schema.field(on), purpose="on=", side="left")
    if deleted is not None and not pat.is_boolean(plain_type(schema.field(deleted).type)):
        raise SchemaError(
            f"deleted={deleted!r} has type {schema.field(deleted).type}. Expected a boolean column. Convert it first.",
            name="JN-TYPE-UNSUPPORTED",
        )
    taken = {name for name in schema.names if name not in (on, deleted)}
    for argument, name in (("valid_from", valid_from), ("valid_to", valid_to)):
        if name in taken:
            raise SchemaError(
                f"{argument}={name!r} is already a column of the result. Pass another name, or rename the column.",
                name="JN-OUTPUT-COLUMN-TAKEN",
            )
    versions = in_process.Versions(
        key=keys, on=on, deleted=deleted, is_snapshots=snapshots, ties=ties, interval=interval
    )
    return in_process.history(versions, opened)


def align(
    *histories: Any,
    key: str | Sequence[str],
    how: Literal["inner", "left", "full"] = "inner",
    valid_from: str = "valid_from",
    valid_to: str = "valid_to",
    suffix: str = "_right",
    **unknown: Never,
) -> Any:
    """Join histories by key, split at every change of one of them.

    At every time, the result has the values that the histories have at that time.

    Parameters
    ----------
    *histories
        Two or more tables with ``key`` and validity intervals, such as results of `history` or dbt snapshots: any
        in-process inputs of `join_asof`. Spark DataFrames are not supported.
    key
        The column that identifies a row in all histories, or a list.
    how
        The times in the result: those in which all histories have a version (``"inner"``, the default), the first one
        (``"left"``), or any (``"full"``).
    valid_from, valid_to
        The columns with the start (inclusive) and the end (exclusive) in all histories. A null end is open.
    suffix
        Appended to the name of a column if an earlier history has that name.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame, polars.LazyFrame or DuckDB relation
        The columns of the first history, with the interval of each part, then the other columns of the others, with the
        type of the first. Null where a history has no version. Ordered by key (in the order of first occurrence), then
        by start.

    Raises
    ------
    SpecError
        If an argument has an invalid value.
    SchemaError
        If a column is missing, or types of keys or times differ so that values cannot be compared.
    PlanError
        If an input is a Spark DataFrame.
    DataError
        If a key or a start is null or NaN, a row ends before its start, or two rows of a key and history overlap.

    Notes
    -----
    Time O(n log n), memory O(n), for n rows in all histories. A row whose end equals its start is never valid.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> orders = pa.table({"id": [1, 1], "status": ["new", "paid"], "valid_from": [10, 30], "valid_to": [30, None]})
    >>> prices = pa.table({"id": [1, 1], "price": [5, 6], "valid_from": [0, 20], "valid_to": [20, 40]})
    >>> jn.align(orders, prices, key="id").select(["status", "price", "valid_from", "valid_to"]).to_pydict()
    {'status': ['new', 'new', 'paid'], 'price': [5, 6, 6], 'valid_from': [10, 20, 30], 'valid_to': [20, 30, 40]}
    >>> jn.align(orders, prices, key="id", how="left")["price"].to_pylist()
    [5, 6, 6, None]
    """
    refuse_unknown(align, unknown)
    from juncture.local.many import histories as in_process

    keys, interval = names_of("key", key), _interval(valid_from, valid_to)
    check_choice("how", how, ("inner", "left", "full"))
    check_suffix(suffix)
    if len(histories) < 2:
        raise SpecError(
            f"juncture.align got {len(histories)} tables. Expected two histories or more.", name="JN-ARGUMENT-VALUE"
        )
    if len({*keys, *interval}) < len(keys) + 2:
        raise SpecError(
            f"key={list(keys)!r}, valid_from={valid_from!r} and valid_to={valid_to!r} name a column twice. Remove the "
            "duplicate.",
            name="JN-COLUMN-REPEATED",
        )
    opened = [_opened(each, "align") for each in histories]
    first = opened[0].schema
    taken, outputs = set(first.names), []
    for each in opened:
        for argument, names in {"key": keys, "valid_from": (valid_from,), "valid_to": (valid_to,)}.items():
            check_columns(each.schema, names, argument=argument, side="left" if each is opened[0] else "right")
        check_keys(ComparedColumns(first, each.schema), [(name, name) for name in keys], role="key")
        for name in interval:
            check_order(each.schema.field(name), purpose=f"{name!r}", side="left" if each is opened[0] else "right")
        if each is not opened[0]:
            values = [name for name in each.schema.names if name not in (*keys, *interval)]
            outputs.append([(name, free_name(name, suffix, taken, f"Column {name!r}")) for name in values])
    return in_process.align(opened, outputs, key=keys, interval=interval, how=how)


def _interval(valid_from: str, valid_to: str) -> tuple[str, str]:
    check_name("valid_from", valid_from)
    check_name("valid_to", valid_to)
    if valid_from == valid_to:
        raise SpecError(f"valid_from and valid_to are both {valid_to!r}. Pass two names.", name="JN-COLUMN-REPEATED")
    return valid_from, valid_to


def _opened(table: Any, function: str) -> InputTable:
    """Return an input with its rows in memory. Raises PlanError for Spark DataFrames."""
    if choose_engine(table, table, None) == "spark":
        raise PlanError(
            f"juncture.{function} runs in this process, but the table is a Spark DataFrame. Convert it with .toArrow() "
            "or pass the paths of its files.",
            name="JN-INPUT-ENGINES",
        )
    from juncture.local.many.spines import opened

    return opened(table, None)
