"""As-of joins in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from juncture.joins.arguments import AsofArguments, Frame
from juncture.joins.planning import join_by
from juncture.planner.statistics import Stats
from juncture.spec.asof import Asof, Direction, Prefer, Ties
from juncture.spec.computed import Keys
from juncture.spec.distance import Distance
from juncture.spec.schema import How

if TYPE_CHECKING:
    from juncture.incremental.change_batch import ChangeFormat
    from juncture.streams.order import Order


@overload
def join_asof(left: Frame, right: Any, **arguments: Unpack[AsofArguments]) -> Frame: ...
@overload
def join_asof(left: Any, right: Any, **arguments: Unpack[AsofArguments]) -> Any: ...
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
    direction: Direction = "backward",
    tolerance: Distance | None = None,
    allow_exact_matches: bool = True,
    how: How = "left",
    matches: int = 1,
    order_by: str | Sequence[str] = (),
    ties: Ties = "greatest",
    prefer: Prefer = "earlier",
    nulls_equal: bool = False,
    known: str | Sequence[str] | None = None,
    where: str | None = None,
    coalesce: bool = True,
    suffix: str = "_right",
    algorithm: str = "auto",
    spark: Any = None,
    lazy: bool = False,
    memory: str | int | None = None,
    maintain_order: Literal["left"] | None = "left",
    stats: Stats | None = None,
    left_order: Order | Sequence[Order] | None = None,
    right_order: Order | Sequence[Order] | None = None,
    changes: bool | ChangeFormat = False,
    unmatched_deletes: Literal["error", "count"] = "error",
    **unknown: Any,
) -> Any:
    """Match each left row with the right row that was in force at its time.

    Like a lookup of the latest price before each trade, or the weather at each departure: among the right rows with
    equal ``by``, the one whose ``on`` is closest on the wanted side. The inputs need not be sorted.

    Parameters
    ----------
    left, right
        Two Spark DataFrames (classic or Connect), of which the left one, or both, may be streams; or any
        mixture of tables that speak Arrow (pyarrow and its datasets, Polars, pandas, DuckDB, an iterable of record
        batches) and paths to files (a file, folder, glob or list of them).
    on
        The column of both that orders them: an integer, float, decimal, date or timestamp; ``left_on`` and
        ``right_on`` where the names differ. Rows whose ``on`` is null or NaN match nothing. Or an expression,
        ``juncture.expr("date + open_time")``. What asks for no distance may go by any values that have an order, such
        as texts, or by several columns, ``["date", "seq"]``, of which the first decides where it differs.
    by
        Columns or expressions that have to be equal, one or several; ``left_by`` and ``right_by`` where they differ.
        Null equals nothing, unless ``nulls_equal`` says so.
    direction
        - ``"backward"`` (the default): the greatest right ``on`` that is not greater than the left's;
        - ``"forward"``: the least right ``on`` that is not less;
        - ``"nearest"``: the one at the least distance, the one that ``prefer`` says of two at the same.
    tolerance
        The greatest distance that still matches, inclusive: a number, a ``timedelta``, a duration such as ``"5m"``,
        or the name of a left column that holds one per row, which goes first. None for no limit.
    allow_exact_matches
        Whether an equal ``on`` matches.
    how
        ``"left"`` (the default) keeps every left row, ``"inner"`` the matched ones; ``"right"`` and ``"full"`` keep
        the right rows that no left row took; ``"semi"`` and ``"anti"`` return the left rows with and without a match.
    matches
        The most right rows for one left row, best first.
    order_by
        Right columns that decide among right rows at the same ``on``: the greatest wins. The remaining right columns
        decide after them, so the answer is always the same.
    ties
        - ``"greatest"`` (the default): of right rows at the same ``on`` the greatest wins, as ``order_by`` says;
        - ``"first"``, ``"last"``: the first or the last one in the order of the right table, as in pandas and Polars,
          or in that of ``order_by``. Spark DataFrames have no order of their own, so there ``order_by`` is needed;
        - ``"error"``: data in which a tie has to be decided are refused.
    prefer
        Which of two right rows at the same distance is the nearest: ``"earlier"`` (the default), or ``"later"``, as in
        Polars and Daft.
    nulls_equal
        Whether a null in ``by`` equals a null.
    known
        To match no right row before it was known: the right column that says since when a row is known, and the left
        one that says up to when, as in ``("ingested_at", "seen_at")``; the left ``on`` where the second is left out. Of
        several known rows at the best ``on`` the one that was known last is taken; those known at once are a tie.
    where
        A further condition over both tables, in the SQL of `juncture.join_where`, such as ``"r.price < l.limit"``: of
        the right rows that could match, the best one is taken for which it is true. Right rows are tried from the best
        one on, and all of a key where none is found.
    coalesce
        Whether the right ``on`` column is left out where ``on`` names both.
    suffix
        Added to the name of a right column that the left table has too.
    algorithm
        ``"auto"`` (the default) lets the planner choose. In-process: ``"probe"``, ``"merge"``. On Spark:
        ``"broadcast"``, ``"broadcast_left"``, ``"hash"``, ``"range"``, ``"window"``, ``"native"``. The answer is the
        same.
    spark, lazy, memory, maintain_order, stats, left_order, right_order, changes, unmatched_deletes
        Where it runs, and what it may use: as for `juncture.plan`.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
        The left columns, then the right ones less ``by`` and, where ``on`` names both, ``on``. In-process the rows keep
        the left order, and the type is the left table's (pyarrow for paths and streams); on Spark it is a DataFrame
        without an order. The index of a pandas left table goes with its rows; a right one's is left out.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense.
    SchemaError
        If a column is missing, or types do not compare.
    PlanError
        If the inputs or the algorithm named cannot be joined this way, or the memory is too small to work in.
    DataError
        If a file cannot be read, or a tie has to be decided under ``ties="error"``.
    StateError
        If there is no room to spill.

    Notes
    -----
    In-process the left ``by`` and ``on`` columns are held in memory, sorted once, and the right is streamed past them:
    time O((L + R) log L), memory O(L) and the matched right rows. On Spark see ``juncture.plan(…).explain()``. The
    idea of the streamed probe is that of Daft's as-of join ("Scaling As-of Joins").

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> frames = pa.table({"ts": [2, 5, 8], "robot_id": ["a", "a", "b"]})
    >>> telemetry = pa.table({"ts": [1, 4, 8], "robot_id": ["a", "a", "b"], "angle": [10.0, 20.0, 30.0]})
    >>> jn.join_asof(frames, telemetry, on="ts", by="robot_id").to_pydict()
    {'ts': [2, 5, 8], 'robot_id': ['a', 'a', 'b'], 'angle': [10.0, 20.0, 30.0]}

    What orders rows may be several columns, compared one after the other:

    >>> events = pa.table({"day": [1, 1, 2], "seq": [3, 9, 1]})
    >>> versions = pa.table({"day": [1, 1, 2], "seq": [2, 5, 4], "version": ["1.0", "1.1", "2.0"]})
    >>> jn.join_asof(events, versions, on=["day", "seq"]).to_pydict()
    {'day': [1, 1, 2], 'seq': [3, 9, 1], 'version': ['1.0', '1.1', '1.1']}
    """
    return join_by(Asof, join_asof, locals())
