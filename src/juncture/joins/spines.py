"""Regular spines, and values between the rows of a table, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pyarrow as pa

from juncture.errors import SpecError
from juncture.inputs import choose_engine
from juncture.joins.planning import check_limits, refuse_unknown
from juncture.spec.distance import Distance
from juncture.spec.grid import Grid, constant_of
from juncture.spec.interpolate import Interpolation


def grid(
    data: Any = None,
    *,
    every: Distance,
    on: str = "ts",
    by: str | Sequence[str] | Mapping[str, Sequence[Any]] = (),
    start: Any = None,
    end: Any = None,
    spark: Any = None,
    **unknown: Any,
) -> Any:
    """Make a regular spine: for each key a row at every step, from where the key begins to where it ends.

    Parameters
    ----------
    data
        The table whose keys these are: what joins take. None if ``by`` has the keys themselves.
    every
        How far rows are apart: a number, a ``timedelta`` or a duration such as ``"1h"``.
    on
        The column that the grid has its values in, an integer, date or timestamp. Of that type are those of the data.
    by
        The keys: columns of the data, or without data a mapping of names to values, of which each combination has rows.
        Rows of the data that have null there count for nothing.
    start, end
        Where rows begin and end, both included: a value, or the name of a column of the data, of whose values the least
        and the greatest of a key count. By default those of ``on``, where the first is rounded down to a whole multiple
        of ``every``, so that all keys have rows at the same times.
    spark
        A Spark session, if the data are paths, or there are none.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
        The keys and ``on``, in the library of the data: in-process by key, in the order in which the data have them
        first, and ascending; on Spark without an order.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense.
    SchemaError
        If a column is missing, or of a type that has no steps.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> readings = pa.table({"ts": [7, 21, 12], "sensor": ["a", "a", "b"]})
    >>> jn.grid(readings, every=10, by="sensor").to_pydict()
    {'sensor': ['a', 'a', 'a', 'b'], 'ts': [0, 10, 20, 10]}
    >>> jn.grid(every=5, by={"sensor": ["a", "b"]}, start=0, end=5).to_pydict()
    {'sensor': ['a', 'a', 'b', 'b'], 'ts': [0, 5, 0, 5]}
    """
    refuse_unknown(grid, unknown)
    if data is None:
        data, by = _keys(by, start, end)
        data = data if spark is None else spark.createDataFrame(data)
    elif isinstance(by, Mapping):
        raise SpecError("by= is a mapping of names to values, and there are data. Name columns of the data instead.")
    spec = Grid(on=on, every=every, by=by, start=start, end=end)
    if choose_engine(data, data, spark) == "spark":
        from juncture.spark.many import spines as on_spark

        return on_spark.grid(spec, data, spark)
    from juncture.local.many import spines as in_process

    return in_process.grid(spec, data)


def interpolate(
    left: Any,
    right: Any,
    *,
    columns: str | Sequence[str],
    on: str | None = None,
    left_on: str | None = None,
    right_on: str | None = None,
    by: str | Sequence[str] | None = None,
    left_by: str | Sequence[str] | None = None,
    right_by: str | Sequence[str] | None = None,
    tolerance: Distance | tuple[Distance | None, Distance | None] | None = None,
    suffix: str = "_right",
    spark: Any = None,
    memory: str | int | None = None,
    **unknown: Any,
) -> Any:
    """Give each left row the values on the line between the right row before it and the one after it.

    Parameters
    ----------
    left, right
        As for `join_asof`.
    columns
        The right columns, of numbers.
    on, left_on, right_on, by, left_by, right_by
        As for `join_asof`.
    tolerance
        The greatest distance of the row before and of the row after, or a pair of one for each; None for no limit.
    suffix
        Added to the name of a column that the left table has too.
    spark, memory
        As for `join_asof`.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
        The left rows, with the values as float64 beside them: null where there is no row before or after, or it has
        none. A right row at the very value of ``on`` is both. Among several, the rule for ties of `join_asof` decides.

    Raises
    ------
    SpecError, SchemaError, PlanError, DataError, StateError
        As `join_asof` does.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> readings = pa.table({"ts": [0, 10, 20], "level": [1.0, 2.0, 4.0]})
    >>> jn.interpolate(pa.table({"ts": [5, 10, 15, 25]}), readings, on="ts", columns="level").to_pydict()
    {'ts': [5, 10, 15, 25], 'level': [1.5, 2.0, 3.0, None]}
    """
    refuse_unknown(interpolate, unknown)
    spec = Interpolation.of(
        columns,
        tolerance,
        suffix,
        on=on,
        left_on=left_on,
        right_on=right_on,
        by=by,
        left_by=left_by,
        right_by=right_by,
    )
    if choose_engine(left, right, spark) == "spark":
        check_limits("spark", memory)
        from juncture.spark.many import spines as on_spark

        return on_spark.interpolate(spec, left, right, spark)
    from juncture.local.many import spines as in_process
    from juncture.local.resources import resources_here

    return in_process.interpolate(spec, left, right, resources_here(memory))


def _keys(by: Any, start: Any, end: Any) -> tuple[pa.Table, list[str]]:
    """Return the combinations of keys that are given as values, with a column for each.

    Raises
    ------
    SpecError
        If they are no mapping, or it is not said where rows begin and end.
    """
    if by and not isinstance(by, Mapping):
        raise SpecError(
            f"by={by!r} names columns, and there are no data. Pass the data, or a mapping such as "
            '{"sensor": ["a", "b"]}.'
        )
    for name, value in (("start", start), ("end", end)):
        if value is None or isinstance(value, str):
            raise SpecError(f"{name}={value!r} names no value, and there are no data to find one in. Pass a value.")
        constant_of(name, value, None)
    names = list(by)
    for name in names:
        if isinstance(by[name], str) or not isinstance(by[name], Sequence):
            raise SpecError(f"by[{name!r}]={by[name]!r} is no list of values.")
    if not names:
        return pa.table({"nothing": pa.array([0])}), []
    rows = list(product(*by.values()))
    types = [pa.array(list(values)).type for values in by.values()]
    columns = [pa.array([row[place] for row in rows], data_type) for place, data_type in enumerate(types)]
    return pa.table(columns, names=names), names
