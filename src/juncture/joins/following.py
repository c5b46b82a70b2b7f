"""`follow` and its sources and sinks: continuous maintenance of joins and views."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from juncture.errors import SpecError, optional_packages

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from juncture.incremental.follow import Follower, FollowProgress
    from juncture.incremental.runtime import MaintainedQuery
    from juncture.incremental.sinks.files import FilesSink
    from juncture.incremental.sinks.postgres import PostgresSink
    from juncture.incremental.sinks.sink import Sink, Write
    from juncture.incremental.sources.files import FilesSource
    from juncture.incremental.sources.postgres import PostgresSource
    from juncture.incremental.sources.source import Source


def postgres(
    dsn: str,
    tables: Sequence[str] | Mapping[str, str],
    *,
    slot: str = "juncture",
    publication: str | None = None,
    types: Mapping[str, pa.DataType] | None = None,
    append_only: Collection[str] = (),
) -> PostgresSource:
    """Read tables of PostgreSQL: first their rows, then the changes of each transaction, without gaps or overlap.

    Requires PostgreSQL 15 or newer with ``wal_level = logical``, a user that may replicate and read the tables, and
    ``REPLICA IDENTITY FULL`` on the tables, so that updates and deletes include the old rows.

    Parameters
    ----------
    dsn
        The connection string, such as ``"host=db dbname=shop user=juncture"``.
    tables
        The tables, such as ``["customers", "shop.sales"]``, or a mapping from names in the query to tables, such as
        ``{"left": "customers", "right": "shop.sales"}``.
    slot
        The name of the replication slot. It is created when a state is populated and remains when the process ends, so
        that following can continue. While the slot exists, the server keeps its log for it.
    publication
        The name of the publication (default: the name of the slot). It is created if it does not exist.
    types
        Column types that replace those derived from PostgreSQL, such as ``{"sales.price": pa.decimal128(12, 4)}``.
    append_only
        Tables whose rows are never updated or deleted. They do not need ``REPLICA IDENTITY FULL``.

    Returns
    -------
    PostgresSource
        The source, for `juncture.follow`. It has an open connection until it is closed.

    Raises
    ------
    SpecError, SchemaError
        If a table or column does not exist, or an argument has an invalid value.
    PlanError
        If psycopg is not installed, or the server cannot be reached, has another configuration, or denies access.

    Examples
    --------
    >>> import juncture as jn
    >>> source = jn.postgres("host=db dbname=shop", {"left": "customers", "right": "sales"})  # doctest: +SKIP
    """
    with optional_packages("jn.postgres(…)"):
        from juncture.incremental.sources.postgres import PostgresSource
    return PostgresSource(dsn, tables, slot, publication, types, append_only)


def register_postgres(spark: SparkSession) -> None:
    """Register the format ``juncture.postgres`` of ``spark.readStream``, which reads the changes of a PostgreSQL table.

    The options are ``dsn``, ``table``, ``slot`` and ``publication`` as for `juncture.postgres`, and ``partitions``
    (default 4), the approximate number of tasks of the first read. The first micro-batch reads the rows of the table,
    and the following ones read the changes of transactions, with a column ``_weight``. `juncture.changes` accepts such
    streams. Each query needs its own slot for each table. Spark's checkpoint stores the position, and the
    server keeps its log from there.

    Parameters
    ----------
    spark
        The session, of classic Spark or Spark Connect. Its workers also need ``juncture[postgres]``.

    Raises
    ------
    PlanError
        If psycopg is not installed.

    Examples
    --------
    >>> import juncture as jn
    >>> jn.register_postgres(spark)  # doctest: +SKIP
    >>> options = {"dsn": "host=db dbname=shop", "table": "sales", "slot": "shop_sales"}
    >>> sales = spark.readStream.format("juncture.postgres").options(**options).load()  # doctest: +SKIP
    """
    with optional_packages("jn.register_postgres(…)"):
        from juncture.hosting.postgres import PostgresDataSource
    spark.dataSource.register(PostgresDataSource)


def into_postgres(dsn: str, table: str, key: str | Sequence[str], *, replace: bool = False) -> PostgresSink:
    """Write the changes of a result to a table of PostgreSQL, as inserts, updates and deletes by key.

    Parameters
    ----------
    dsn
        The connection string, such as ``"host=db dbname=shop user=juncture"``.
    table
        The table. It is created if it does not exist. The table ``juncture_epochs`` beside it stores the last epoch and
        is written in the same transactions.
    key
        The columns that identify a row of the result.
    replace
        Whether a new state replaces existing rows of the table. By default, existing rows are an error.

    Returns
    -------
    PostgresSink
        The sink, for `juncture.follow`.

    Raises
    ------
    PlanError
        If psycopg is not installed.

    Examples
    --------
    >>> import juncture as jn
    >>> sink = jn.into_postgres("host=db dbname=shop", "totals", key="book")  # doctest: +SKIP
    """
    with optional_packages("jn.into_postgres(…)"):
        from juncture.incremental.sinks.postgres import PostgresSink
    return PostgresSink(dsn, table, key, replace=replace)


def change_files(folder: str | PathLike[str], tables: Mapping[str, pa.Schema]) -> FilesSource:
    """Read change batches from the files of a folder, as they are added.

    Each table has a subfolder of its name with Parquet or JSON lines files (``.jsonl``), in a change format that
    `juncture.changes` reads. Each file is read once, in the order of names, so a new file needs a name after the
    existing ones. Names that start with a dot or an underscore are skipped: write under such a name, then rename.

    Parameters
    ----------
    folder
        The folder.
    tables
        The columns of each table, by its name.

    Returns
    -------
    FilesSource
        The source, for `juncture.follow`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> schemas = {"left": pa.schema({"id": pa.int64()}), "right": pa.schema({"id": pa.int64(), "book": pa.string()})}
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in schemas:
    ...     (folder / name).mkdir()
    >>> _ = (folder / "left" / "001.jsonl").write_text('{"id": 1}')
    >>> _ = (folder / "right" / "001.jsonl").write_text('{"id": 1, "book": "Emma"}')
    >>> join = jn.changes(*schemas.values(), jn.Equi(on="id"))
    >>> sink = lambda epoch, changes: print(epoch, [row for batch in changes for row in batch.to_pylist()])
    >>> with jn.follow(join, jn.change_files(folder, schemas), sink) as follower:
    ...     follower.run(timeout_s=0.1)
    1 []
    2 [{'id': 1, 'book': 'Emma', '_weight': 1}]
    """
    from juncture.incremental.sources.files import FilesSource

    return FilesSource({name: Path(folder, name) for name in tables}, tables)


def into_files(folder: str | PathLike[str]) -> FilesSink:
    """Write the changes of a result to Parquet files, one per epoch.

    Parameters
    ----------
    folder
        The folder. It is created if it does not exist. A file is named by the number of its epoch and appears complete
        or not at all. Files may be removed in the order of epochs once they are read; a missing file in between is an
        error.

    Returns
    -------
    FilesSink
        The sink, for `juncture.follow`.

    Examples
    --------
    >>> import juncture as jn
    >>> sink = jn.into_files("changes")
    """
    from juncture.incremental.sinks.files import FilesSink

    return FilesSink(Path(folder))


def follow(
    query: MaintainedQuery,
    source: Source,
    sink: Sink | Write,
    *,
    tables: Mapping[str, str] | None = None,
    epoch_rows: int = 10_000,
    on_epoch: Callable[[FollowProgress], object] | None = None,
    on_read: Callable[[str, int], object] | None = None,
) -> Follower:
    """Apply the changes of a source to a join or view, and write the result's changes to a sink, exactly once.

    A new state is populated from the current rows of the tables. An existing state continues where it stopped, also
    after a crash. After an error, call ``step`` or ``run`` again: no change is lost or applied twice.

    Parameters
    ----------
    query
        The maintained query: a join (`juncture.changes`) or a view (`juncture.view`).
    source
        The source of changes: `juncture.postgres` or `juncture.change_files`.
    sink
        The sink of the changes of the result: `juncture.into_postgres`, `juncture.into_files`, or a function of the
        epoch number and its change batches.
    tables
        The source's table for each name in the query. By default, the names are equal.
    epoch_rows
        The approximate maximum number of changes in an epoch. Transactions are never split.
    on_epoch
        Called with a FollowProgress after each complete epoch, but not when an epoch is written to the sink again after
        an error.
    on_read
        Called with a table and the number of further rows read while a state is populated.

    Returns
    -------
    Follower
        Has the methods ``run``, ``step``, ``stop`` and ``close``, and is a context manager.

    Raises
    ------
    SpecError
        If an argument has an invalid value.

    Examples
    --------
    See `juncture.change_files`.
    """
    from juncture.incremental.follow import SINK, Follower
    from juncture.incremental.sinks.sink import sink_of

    if isinstance(epoch_rows, bool) or not isinstance(epoch_rows, int) or epoch_rows < 1:
        raise SpecError(
            f"epoch_rows={epoch_rows!r} ({type(epoch_rows).__name__}) is not a number of rows. Expected a whole "
            "number of at least 1.",
            name="JN-ARGUMENT-VALUE",
        )
    names = {name: name for name in source.tables} if tables is None else dict(tables)
    return Follower(query, source, {SINK: sink_of(sink)}, names, epoch_rows, on_epoch, on_read)
