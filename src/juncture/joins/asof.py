"""`join_asof`: as-of joins in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from juncture.joins.execution import Execution, check_execution, returns_left_type
from juncture.joins.planning import joined
from juncture.ordered.domain import Distance
from juncture.spec.asof import Asof, DirectionName, Prefer, Ties
from juncture.spec.expression import Keys
from juncture.spec.schema import How


@returns_left_type
def join_asof(
    left: Any,
    right: Any,
    *,
    on: Keys | None = None,
    left_on: Keys | None = None,
    right_on: Keys | None = None,
    by: Keys | None = None,
    left_by: Keys | None = None,
    right_by: Keys | None = None,
    direction: DirectionName = "backward",
    tolerance: Distance | None = None,
    allow_exact_matches: bool = True,
    how: How = "left",
    matches: int = 1,
    order_by: str | Sequence[str] = (),
    ties: Ties = "greatest",
    prefer: Prefer = "earlier",
    nulls_equal: bool = False,
    available_at: str | Sequence[str] | None = None,
    where: str | None = None,
    coalesce: bool = True,
    suffix: str = "_right",
    **execution: Unpack[Execution],
) -> Any:
    """Match each left row with the right row that was in force at its time.

    For example, find the latest price before each trade. Among the right rows with equal ``by``, the match is the row
    whose ``on`` is closest in the given direction. The inputs need not be sorted.

    Parameters
    ----------
    left, right
        Two Spark DataFrames, or any mix of tables and paths. Spark DataFrames are classic or Connect; the left one may
        be streaming. Tables are pyarrow tables and datasets, Polars, pandas, DuckDB, and iterables of record
        batches. A path is a file, folder, glob, or list of files; Spark reads it if ``spark`` is set or the other input
        is a DataFrame.
    on, left_on, right_on
        The column that orders both tables: an integer, float, decimal, date or timestamp column, or an expression such
        as ``juncture.expr("date + open_time")``. Use ``left_on`` and ``right_on`` if the names differ. Without
        ``tolerance`` and ``direction="nearest"``, any type with an order is accepted, such as text, and so is a list of
        columns, such as ``["date", "seq"]``, compared from first to last. Null and NaN match nothing.
    by, left_by, right_by
        Columns or expressions that must be equal: one, or a list. Use ``left_by`` and ``right_by`` if the names differ.
        Null equals nothing unless ``nulls_equal`` is set.
    direction
        - ``"backward"`` (default): the greatest right ``on`` that is at most the left ``on``.
        - ``"forward"``: the least right ``on`` that is at least the left ``on``.
        - ``"nearest"``: the right ``on`` at the smallest distance. ``prefer`` decides between two at the same distance.
    tolerance
        The greatest distance of a match, inclusive: a number for numeric ``on``; a ``timedelta`` or a duration such as
        ``"5m"`` for dates and timestamps; or the name of a left column with a distance per row. A left column takes
        precedence over a duration of the same name. None (default) means no limit.
    allow_exact_matches
        Whether a right row with the same ``on`` matches.
    how
        ``"left"`` (default) keeps every left row, ``"inner"`` matches only. ``"right"`` keeps matches and unmatched
        right rows, ``"full"`` all rows of both tables. ``"semi"`` and ``"anti"`` return the left rows with or without a
        match.
    matches
        The maximum number of right rows per left row, best first.
    order_by
        Right columns that break ties at equal ``on``: the greatest value wins. Remaining ties are broken by the other
        right columns, so the result is deterministic.
    ties
        - ``"greatest"`` (default): at equal ``on``, the greatest row by ``order_by`` wins.
        - ``"first"``, ``"last"``: the first or last row wins, in the order of ``order_by`` or, without it, of the right
          table, as in pandas and Polars. Spark DataFrames have no order, so they need ``order_by``.
        - ``"error"``: a tie raises DataError.
    prefer
        Which of two right rows at the same distance is nearest: ``"earlier"`` (default), or ``"later"`` as in Polars
        and Daft.
    nulls_equal
        Whether null equals null in ``by``.
    available_at
        Excludes right rows that were not yet available. Pass the right column with the time at which a row became
        available, and optionally the left column to compare it with (default: the left ``on``), such as
        ``("ingested_at", "asked_at")``. Of several available rows at the best ``on``, the one that became available
        last wins; equal times are a tie.
    where
        A condition over both tables, in the SQL of `juncture.join_where`, such as ``"r.price < l.limit"``. The match is
        the best right row for which it is true. Candidates are tried from the best one, up to all rows of a key.
    coalesce
        Whether to omit the right ``on`` column if ``on`` names both.
    suffix
        Appended to the name of a right column if the left table has that name.
    **execution
        How the join runs: ``algorithm``, ``spark``, ``lazy``, ``memory``, ``maintain_order`` and ``stats``, as in
        `juncture.Execution`. Algorithms in-process: ``"probe"``, ``"merge"``. On Spark: ``"broadcast"``,
        ``"broadcast_left"``, ``"hash"``, ``"range"``, ``"window"``, ``"native"``.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame, polars.LazyFrame, DuckDB relation or pyspark.sql.DataFrame
        The left columns, then the right columns without ``by`` and, if ``on`` names both, ``on``. In-process, the
        result has the type of the left table (pyarrow for paths and record batches) and its order. The index of a
        pandas left table is kept, the right one is dropped. On Spark, the rows have no order.

    Raises
    ------
    SpecError
        If an argument has an invalid name or value.
    SchemaError
        If a column is missing, or the types of two columns do not compare.
    PlanError
        If the inputs or ``algorithm`` do not support this join, or ``memory`` is below the minimum.
    DataError
        If a file cannot be read, or a tie occurs with ``ties="error"``.
    StateError
        If rows cannot be spilled to disk.

    Notes
    -----
    In-process: time O((L + R) log L), memory O(L) plus the matched right rows. The left keys are sorted in memory, and
    the right table is streamed past them, as in Daft's "Scaling As-of Joins". On Spark, see
    ``juncture.plan(…).explain()``.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> frames = pa.table({"ts": [2, 5, 8], "robot_id": ["a", "a", "b"]})
    >>> telemetry = pa.table({"ts": [1, 4, 8], "robot_id": ["a", "a", "b"], "angle": [10.0, 20.0, 30.0]})
    >>> jn.join_asof(frames, telemetry, on="ts", by="robot_id").to_pydict()
    {'ts': [2, 5, 8], 'robot_id': ['a', 'a', 'b'], 'angle': [10.0, 20.0, 30.0]}

    Order rows by several columns:

    >>> events = pa.table({"day": [1, 1, 2], "seq": [3, 9, 1]})
    >>> versions = pa.table({"day": [1, 1, 2], "seq": [2, 5, 4], "version": ["1.0", "1.1", "2.0"]})
    >>> jn.join_asof(events, versions, on=["day", "seq"]).to_pydict()
    {'day': [1, 1, 2], 'seq': [3, 9, 1], 'version': ['1.0', '1.1', '1.1']}
    """
    check_execution(join_asof, execution)
    spec = Asof(
        on=on,
        left_on=left_on,
        right_on=right_on,
        by=by,
        left_by=left_by,
        right_by=right_by,
        direction=direction,
        tolerance=tolerance,
        allow_exact_matches=allow_exact_matches,
        how=how,
        matches=matches,
        order_by=order_by,
        ties=ties,
        prefer=prefer,
        nulls_equal=nulls_equal,
        available_at=available_at,
        where=where,
        coalesce=coalesce,
        suffix=suffix,
    )
    return joined(left, right, spec, execution)
