"""`grid` and `interpolate`: regular spines, and values between the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never

from juncture.errors import SpecError
from juncture.inputs.kinds import choose_engine
from juncture.joins.execution import refuse_unknown
from juncture.joins.planning import check_limits
from juncture.ordered.domain import Distance
from juncture.spec.spines import Grid, Interpolation, key_combinations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def grid(
    data: Any = None,
    *,
    every: Distance,
    on: str = "ts",
    by: str | Sequence[str] | Mapping[str, Sequence[Any]] = (),
    start: Any = None,
    end: Any = None,
    spark: SparkSession | None = None,
    **unknown: Never,
) -> Any:
    """Create a regular spine: one row per key and step, from the start to the end of the key.

    Parameters
    ----------
    data
        The table with the keys: any input of `join_asof` except streams. None if ``by`` lists the keys.
    every
        The step: a number for integer ``on``, a ``timedelta``, or a duration such as ``"1h"``.
    on
        The column with the steps: an integer, date or timestamp, of the type that it has in ``data``.
    by
        The key columns of ``data``, one or a list. Rows with a null key are skipped. Without ``data``: a mapping of
        names to values, such as ``{"sensor": ["a", "b"]}``, with rows for each combination.
    start, end
        The first and last step, inclusive: a value, or a column of ``data`` whose minimum and maximum per key are used.
        The default is ``on``, with the start rounded down to a multiple of ``every``, so that all keys have rows at the
        same times.
    spark
        A Spark session, if ``data`` is paths or None.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame, polars.LazyFrame, DuckDB relation or pyspark.sql.DataFrame
        The keys and ``on``, with the type of ``data``. In-process, ordered by key (in the order of first occurrence),
        then by ``on``. On Spark, the rows have no order.

    Raises
    ------
    SpecError
        If an argument has an invalid name or value.
    SchemaError
        If a column is missing, or its type has no steps.
    DataError
        If the grid has more rows than fit in memory.

    Notes
    -----
    Time and memory O(rows of ``data`` + rows of the grid).

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
        data, by = key_combinations(by, start, end)
        data = data if spark is None else spark.createDataFrame(data)
    elif isinstance(by, Mapping):
        raise SpecError(
            f"by={by!r} is a mapping of values, which needs data=None. With data, pass its key columns, such as "
            'by="sensor".',
            name="JN-ARGUMENT-CONFLICT",
        )
    spec = Grid(on=on, every=every, by=by, start=start, end=end)
    engine = _engine(data, data, spark)
    opened = engine.opened(data, spark)
    return engine.grid(spec.resolve(opened.schema), opened)


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
    spark: SparkSession | None = None,
    memory: str | int | None = None,
    **unknown: Never,
) -> Any:
    """Interpolate linearly between the right rows before and after each left row.

    Parameters
    ----------
    left, right, on, left_on, right_on, by, left_by, right_by
        As for `join_asof`.
    columns
        The numeric right columns to interpolate: one, or a list.
    tolerance
        The greatest distance of the right row before and after, inclusive, as for `join_asof`; a pair sets them
        separately. None (default) means no limit.
    suffix
        Appended to the name of a right column if the left table has that name.
    spark, memory
        As in `juncture.Execution`.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame, polars.LazyFrame, DuckDB relation or pyspark.sql.DataFrame
        The left rows and the interpolated values as float64: null if there is no row before or after, or its value is
        null. A right row at exactly ``on`` is both. Ties are broken as in `join_asof`.

    Raises
    ------
    SpecError, SchemaError, PlanError, DataError, StateError
        As for `join_asof`.

    Notes
    -----
    Costs two as-of joins: time O((L + R) log L).

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
    from juncture.local.resources import resources_here

    engine, resources = _engine(left, right, spark, memory), resources_here(memory)
    left_input, right_input = (engine.opened(table, spark) for table in (left, right))
    columns_on_lines = spec.resolve(left_input.schema, right_input.schema)
    return engine.interpolate(spec, columns_on_lines, left_input, right_input, resources)


def _engine(left: Any, right: Any, spark: SparkSession | None, memory: str | int | None = None) -> Any:
    """Return the module of the engine, which opens inputs and computes grids and interpolated tables."""
    if choose_engine(left, right, spark) == "spark":
        check_limits("spark", memory)
        from juncture.spark.many import spines as on_spark

        return on_spark
    from juncture.local.many import spines as in_process

    return in_process
