"""Answers that follow their tables: what changes at a source is brought to a sink."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juncture.errors import PlanError, SpecError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from juncture.incremental.follow import Follower, FollowProgress, MaintainedQuery
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
    """Read tables of PostgreSQL as they are, and then what each transaction changes, without gap or overlap.

    It takes version 15 or newer with ``wal_level = logical``, a user that may replicate and read the tables, and
    ``REPLICA IDENTITY FULL`` of the tables, by which the server tells the old rows of updates and deletes.

    Parameters
    ----------
    dsn
        What connects to the database, such as ``"host=db dbname=shop user=juncture"``.
    tables
        The tables, such as ``["customers", "shop.sales"]``, or what they are called here and there, such as
        ``{"left": "customers", "right": "shop.sales"}``.
    slot
        The name of the replication slot. It is made when a state is populated, and stays when the process ends, so
        that following goes on where it was left. While it stays, the server keeps its log for it.
    publication
        The name of the publication; by default that of the slot. It is made if it is not there.
    types
        Types of columns, such as ``{"sales.price": pa.decimal128(12, 4)}``, in place of those that follow from
        PostgreSQL's.
    append_only
        Tables whose rows are never updated or deleted: they do not need ``REPLICA IDENTITY FULL``.

    Raises
    ------
    SpecError, SchemaError
        If there is no such table or column, or an argument has a value that makes no sense.
    PlanError
        If the server cannot be reached, does not log what is needed, or does not allow it to be read.
    """
    module = _part("juncture.incremental.sources.postgres", "jn.postgres(…)")
    source: PostgresSource = module.PostgresSource(dsn, tables, slot, publication, types, append_only)
    return source


def register_postgres(spark: SparkSession) -> None:
    """Let Spark read what changes in a table of PostgreSQL: the format ``juncture.postgres`` of ``spark.readStream``.

    Its options are ``dsn``, ``table`` and ``slot``, as for `juncture.postgres`, and if need be ``publication``. Each
    query has a slot of its own for each table. The first micro-batch reads the table as it is, in about as many tasks
    as ``partitions`` says (4), and the following ones what transactions have changed, with a column ``_weight``:
    streams that a join with ``changes=True`` takes. Spark's checkpoint keeps how far they have come, and the server
    keeps its log from there on.

    Parameters
    ----------
    spark
        The session, of classic Spark or Spark Connect. Its workers need ``juncture[postgres]``, too.

    Raises
    ------
    PlanError
        If psycopg is not installed.
    """
    module = _part("juncture.incremental.spark.postgres", "jn.register_postgres(…)")
    spark.dataSource.register(module.PostgresDataSource)


def into_postgres(dsn: str, table: str, key: str | Sequence[str], *, replace: bool = False) -> PostgresSink:
    """Write an answer to a table of PostgreSQL: what changes is inserted, updated and deleted there by key.

    Parameters
    ----------
    dsn
        What connects to the database.
    table
        The table; it is made if it is not there. Beside it, a table ``juncture_epochs`` is made, which tells which
        epoch it holds, and is written in the same transactions.
    key
        The columns that tell the rows of the answer apart.
    replace
        Whether a new state replaces the rows that the table has; otherwise they are an error.
    """
    module = _part("juncture.incremental.sinks.postgres", "jn.into_postgres(…)")
    sink: PostgresSink = module.PostgresSink(dsn, table, key, replace=replace)
    return sink


def change_files(folder: str | PathLike[str], tables: Mapping[str, pa.Schema]) -> FilesSource:
    """Read change batches from the files of a folder, as they are added.

    Each table has a subfolder of its name, with Parquet files or JSON lines (``.jsonl``) that hold changes in one of
    the conventions that `juncture.changes` reads. They are taken once each, in the order of their names, which is why
    a file that is added has to come after those that are there. Names that begin with a dot or an underscore are left
    out: write under such a name, and rename.

    Parameters
    ----------
    folder
        The folder.
    tables
        The columns of each table.

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
    >>> shown = lambda epoch, changes: print(epoch, [row for batch in changes for row in batch.to_pylist()])
    >>> with jn.follow(join, jn.change_files(folder, schemas), shown) as follower:
    ...     follower.run(seconds=0.1)
    1 []
    2 [{'id': 1, 'book': 'Emma', '_weight': 1}]
    """
    from juncture.incremental.sources.files import FilesSource

    return FilesSource({name: Path(folder, name) for name in tables}, tables)


def into_files(folder: str | PathLike[str]) -> FilesSink:
    """Write the changes of an answer to Parquet files, one for each epoch.

    Parameters
    ----------
    folder
        The folder; it is made if it is not there. A file has the number of its epoch as its name, and is there as a
        whole or not at all. The first files may be removed once they have been read; one that is missing in between is
        an error.
    """
    from juncture.incremental.sinks.files import FilesSink

    return FilesSink(Path(folder))


def _part(name: str, what: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise PlanError(
            f"{what} takes the Python package psycopg, which cannot be loaded ({error}). Install it by pip install "
            "'juncture[postgres]'."
        ) from error


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
    """Bring what changes at a source through a join or a view to a sink, each change once.

    A new state is populated from the tables as they are; one that has rows goes on where it was left, after a crash,
    too. After an error, call ``step`` or ``run`` again: nothing is lost, and nothing comes twice.

    Parameters
    ----------
    query
        The maintained query: a join (`juncture.changes`) or a view (`juncture.view`).
    source
        Where changes come from: `juncture.postgres` or `juncture.change_files`.
    sink
        Where the changes of the answer go: `juncture.into_postgres`, `juncture.into_files`, or a function of the number
        of an epoch and its changes.
    tables
        The source's tables by what the join or view calls them; by default they have the same names.
    epoch_rows
        About how many changes are taken at once, if so many have come: whole transactions, always.
    on_epoch
        Is told of each epoch when it is complete, and not of one that the sink is given again after an error.
    on_read
        Is told how many rows of a table more have been read, while a state is populated.

    Returns
    -------
    Follower
        With ``run``, ``step``, ``stop`` and ``close``.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense.
    """
    from juncture.incremental.follow import Follower
    from juncture.incremental.sinks.sink import sink_of

    if isinstance(epoch_rows, bool) or not isinstance(epoch_rows, int) or epoch_rows < 1:
        raise SpecError(f"epoch_rows={epoch_rows!r} is no number of rows. Expected a whole number of at least 1.")
    names = {name: name for name in source.tables} if tables is None else dict(tables)
    return Follower(query, source, sink_of(sink), names, epoch_rows, on_epoch, on_read)
