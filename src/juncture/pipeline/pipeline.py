"""`Pipeline`: a pipeline file read, validated, explained and run from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from juncture.errors import SpecError, did_you_mean, optional_packages, wrong_type
from juncture.ordered.duration import TimeLength, duration_ns
from juncture.pipeline.engine import Engine, Mode, Watch, unwatched
from juncture.pipeline.graph import chosen_sinks, steps_in_order
from juncture.pipeline.model import File
from juncture.pipeline.problems import Path as Keys
from juncture.pipeline.problems import PipelineError, Problems
from juncture.pipeline.read import read_file
from juncture.planner.decision import Engine as EngineName
from juncture.spec.arguments import check_choice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from juncture.incremental.follow import Follower
    from juncture.pipeline.explain import Explained
    from juncture.pipeline.run import RunReport
    from juncture.pipeline.schemas import Schemas
    from juncture.pipeline.verify import VerifyReport

# Modules that validate and run a pipeline are imported late, so that errors in a file are reported without delay.


class Pipeline:
    """A pipeline of sources, steps, checks and sinks, read from a TOML file.

    Create it with `Pipeline.from_toml`. Other methods raise `PipelineError` if the file does not fit the columns of its
    sources, or cannot be maintained over changes.

    Parameters
    ----------
    file, lines
        The validated content of the file, and the line of each key.
    path
        The path of the file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import juncture as jn
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> pq.write_table(pa.table({"ts": [2, 5]}), folder / "trades.parquet")
    >>> pq.write_table(pa.table({"ts": [1, 4], "bid": [7.0, 7.5]}), folder / "quotes.parquet")
    >>> _ = (folder / "juncture.toml").write_text('''
    ... [sources]
    ... trades = { path = "trades.parquet" }
    ... quotes = { path = "quotes.parquet" }
    ... [steps.priced]
    ... join = "asof"
    ... left = "trades"
    ... right = "quotes"
    ... on = "ts"
    ... ''')
    >>> pipeline = jn.Pipeline.from_toml(folder / "juncture.toml")
    >>> pipeline.step("priced").to_pydict()
    {'ts': [2, 5], 'bid': [7.0, 7.5]}
    """

    def __init__(self, file: File, lines: Mapping[Keys, int], path: Path) -> None:
        self.file = file
        self.path = path
        self._lines = lines
        self._engines: dict[int | None, Engine] = {}

    @classmethod
    def from_toml(cls, path: str | Path, parameters: Mapping[str, Any] | None = None) -> Pipeline:
        """Read and validate a pipeline file. Sources are not read.

        Parameters
        ----------
        path
            The file. Relative paths in it start at its folder.
        parameters
            Values that replace the defaults of parameters in the file.

        Raises
        ------
        PipelineError
            If the file has problems. The error lists all of them with their lines.
        """
        file_path = Path(path)
        text = file_path.read_text(encoding="utf-8")
        file, lines = read_file(text, str(path), parameters, file_path.absolute().parent)
        with optional_packages("A pipeline"):
            # DuckDB and sqlglot, which schemas are checked with, would otherwise be found missing within a run.
            import_module("juncture.pipeline.schemas")
        return cls(file, lines, file_path)

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.file.folder

    @property
    def steps(self) -> list[str]:
        """The names of the steps, each after its inputs."""
        return steps_in_order(self.file)

    def check(
        self,
        *,
        spark: SparkSession | Callable[[], SparkSession] | None = None,
        engine: EngineName | None = None,
        mode: Mode = "batch",
    ) -> Schemas:
        """Validate the pipeline against its source schemas, without reading rows or starting Spark.

        Parameters
        ----------
        spark
            As for `run`. None (default) validates the pipeline for this process, otherwise for Spark. It starts no job.
        engine
            ``"local"`` or ``"spark"``, to validate the pipeline for Spark without a session.
        mode
            ``"batch"`` (default) for `run`; ``"stream"`` for `stream`, which continues existing outputs; ``"changes"``
            for `changes` and `follow`, which maintain the sinks.

        Returns
        -------
        Schemas
            The Arrow schema of each source and step; None if only Spark knows it.

        Raises
        ------
        SpecError
            If an argument is invalid, or two arguments conflict.
        PipelineError
            If there are problems. The error lists all of them with their lines.
        """
        from juncture.pipeline.run import EarlierRuns
        from juncture.pipeline.schemas import check_file

        engine = _engine_name(spark, engine)
        check_choice("mode", mode, get_args(Mode))
        if mode == "stream" and engine == "local":
            raise SpecError(
                "mode='stream' needs Spark. Pass spark=, or engine='spark' to validate without a session.",
                name="JN-ARGUMENT-CONFLICT",
            )
        problems = Problems(self._lines)
        state = EarlierRuns.of(self.file.state)
        schemas = check_file(self.file, problems, engine=engine, earlier_outputs=state.outputs(), mode=mode)
        if mode == "changes":
            from juncture.pipeline.changing import check_changes

            check_changes(self.file, schemas, problems, engine)
        if problems.entries:
            raise PipelineError(str(self.path), problems.entries)
        return schemas

    def step(self, name: str, spark: SparkSession | None = None) -> Any:
        """Return the rows of a step or source.

        Parameters
        ----------
        name
            The step or source.
        spark
            A Spark session. Without it, the step runs in this process.

        Returns
        -------
        pyspark.sql.DataFrame or pyarrow.Table
            A lazy DataFrame on Spark, otherwise a table.

        Raises
        ------
        SpecError
            If the step or source does not exist.
        """
        names = [*self.file.sources, *self.file.steps]
        if name not in names:
            raise SpecError(
                f"The step or source {name!r} does not exist. {did_you_mean(name, names)}", name="JN-ARGUMENT-VALUE"
            )
        return self._engine(spark).computed(name)

    def explain(
        self,
        format: Literal["text", "html"] = "text",  # noqa: A002 - as in Plan.explain
        spark: SparkSession | None = None,
    ) -> str:
        """Describe the dataflow, and how each join will run.

        Parameters
        ----------
        format
            ``"text"`` (default), or ``"html"`` for a self-contained page.
        spark
            A Spark session, to explain the pipeline on Spark. Small jobs may then sample the sources.

        Raises
        ------
        PlanError
            If ``format="html"`` needs a package that is not installed.
        """
        from juncture.pipeline.explain import NOT_YET, Explained, planned_here

        check_choice("format", format, ("text", "html"))
        if spark is None:
            schemas = self.check()
            plan_of = planned_here(self.file, schemas)
            explained = Explained(self.file, schemas, plan_of, "in this process", (NOT_YET,))
        else:
            explained = self._explained_on(spark)
        return explained.html() if format == "html" else explained.text()

    def _explained_on(self, spark: SparkSession) -> Explained:
        from juncture.pipeline.column_pruning import needed_columns
        from juncture.pipeline.explain import Explained

        schemas = self.check(engine="spark")
        read = {name for step in self.file.steps.values() for name in step.inputs}
        outputs = [sink.from_ for sink in self.file.sinks.values()]
        source_columns = needed_columns(
            self.file, schemas, [*outputs, *(name for name in self.steps if name not in read)]
        )
        engine = self._opened(schemas, spark, source_columns=source_columns)
        for name in [*self.file.sources, *self.steps]:
            engine.make(name)
        return Explained(self.file, schemas, engine.plan, "on Spark")

    def run(
        self,
        spark: SparkSession | Callable[[], SparkSession] | None = None,
        *,
        only: Sequence[str] = (),
        downstream_of: Sequence[str] = (),
        force: bool = False,
        memory: str | int | None = None,
        watch: Watch = unwatched,
    ) -> RunReport:
        """Run the pipeline: compute the inputs of its sinks, check them, and write the sinks.

        Parameters
        ----------
        spark
            A Spark session, or a function that starts one if there is work. None (default) runs in this process.
        only
            Sinks to write, or steps whose sinks are written. By default, all.
        downstream_of
            Sources and steps: only sinks that depend on them are written.
        force
            Whether to write sinks whose inputs are unchanged.
        memory
            The memory limit of each in-process join, in bytes or such as ``"2GB"``.
        watch
            Progress display.

        Returns
        -------
        RunReport
            The written and unchanged sinks, and the results of checks.

        Raises
        ------
        DataError
            If a check fails. No sink is written then.
        """
        from juncture.pipeline.column_pruning import needed_columns
        from juncture.pipeline.run import run

        name = _engine_name(spark)
        schemas = self.check(engine=name)
        sinks = chosen_sinks(self.file, only, downstream_of)

        def begin(persisted: Sequence[str]) -> Engine:
            source_columns = needed_columns(self.file, schemas, [sink.from_ for sink in self.file.sinks.values()])
            engine_options: dict[str, Any] = {"memory": memory} if spark is None else {"persisted": persisted}
            return self._opened(schemas, spark, watch=watch, source_columns=source_columns, **engine_options)

        return run(self.file, sinks, begin, engine=name, force=force, watch=watch)

    def verify(self, *, sample_rows: int | None = 10_000, seed: int = 0) -> VerifyReport:
        """Compare the steps in one batch, as streams and over changes, over the first rows of each source.

        The results have to be equal, as one definition means the same in all three. A difference shows for example rows
        that are later than their declared order allows, or an SQL function that depends on the order of rows.

        Parameters
        ----------
        sample_rows
            The number of rows of each source, or None for all rows.
        seed
            The seed of batches, epochs, deleted rows and restarts. The same seed repeats them.

        Returns
        -------
        VerifyReport
            The outcome of each step: ``"equal"``, ``"different"`` with the first row that differs, or ``"refused"``
            with the reason if a step cannot run as a stream or over changes.

        Raises
        ------
        SpecError
            If ``sample_rows`` is not positive.
        PipelineError
            If the pipeline cannot run in this process.
        PlanError
            If the package for state is not installed.

        Notes
        -----
        Runs in this process. The rows of the sample and of all steps are held in memory.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import juncture as jn
        >>> from juncture.pipeline.example import write_example
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = write_example(folder)
        >>> report = jn.Pipeline.from_toml(folder / "juncture.toml").verify(sample_rows=500)
        >>> report.is_equal
        True
        """
        from juncture.pipeline.verify import verified

        if sample_rows is not None and not (isinstance(sample_rows, int) and sample_rows > 0):
            raise wrong_type("sample_rows", sample_rows, "a number of rows", "a positive integer, or None for all rows")
        return verified(self.file, self.check(engine="local"), sample_rows, seed)

    def stream(
        self,
        spark: SparkSession,
        *,
        only: Sequence[str] = (),
        downstream_of: Sequence[str] = (),
        poll_interval: str | timedelta | None = None,
    ) -> dict[str, StreamingQuery]:
        """Start the pipeline as a stream: one query per sink, which continues from its checkpoint.

        Parameters
        ----------
        spark
            A Spark session.
        only, downstream_of
            As for `run`.
        poll_interval
            The time between two polls: a duration such as ``"10s"``, or a ``timedelta``; Spark counts milliseconds.
            None (default) processes the available rows, then ends.

        Returns
        -------
        dict
            The query of each sink.

        Raises
        ------
        SpecError
            If ``poll_interval`` is not a duration, or negative.
        PlanError
            If a sink has no streaming source, or Spark cannot stream it.
        """
        from juncture.pipeline.spark import SparkEngine
        from juncture.pipeline.streaming import started

        poll_ms = poll_interval_ms(poll_interval)
        schemas = self.check(engine="spark", mode="stream")
        engine = SparkEngine(self.file, schemas, spark, is_stream=True)
        sinks = chosen_sinks(self.file, only, downstream_of)
        return started(self.file, engine, sinks, poll_ms)

    def changes(
        self,
        spark: SparkSession,
        *,
        only: Sequence[str] = (),
        downstream_of: Sequence[str] = (),
        poll_interval: str | timedelta | None = None,
    ) -> dict[str, StreamingQuery]:
        """Start a query per sink with changes on Spark, which continues from its own checkpoint.

        Parameters
        ----------
        spark
            A Spark session.
        only, downstream_of
            As for `run`.
        poll_interval
            As for `stream`. None (default) processes the available changes, then ends.

        Returns
        -------
        dict
            The query of each sink. The column ``_weight`` of its rows is the number of copies to add or, if negative,
            to remove. The sum equals the result of a batch run over the current tables.

        Raises
        ------
        SpecError
            If ``poll_interval`` is not a duration, or negative.
        PlanError
            If Spark cannot stream a sink.
        """
        from juncture.pipeline.streaming import started_changes

        poll_ms = poll_interval_ms(poll_interval)
        schemas = self.check(engine="spark", mode="changes")
        sinks = chosen_sinks(self.file, only, downstream_of)
        return started_changes(self.file, schemas, spark, sinks, poll_ms)

    def follow(
        self, *, only: Sequence[str] = (), downstream_of: Sequence[str] = (), memory: str | int | None = None
    ) -> AbstractContextManager[dict[str, Follower]]:
        """Maintain each sink with changes in this process, with a state on disk.

        Change files of the sources are applied once each, in the order of their names. Sinks that have steps in common
        are maintained together, by one follower with one state, also if ``only`` names some of them. The state is in
        the folder of the key ``state`` of ``[pipeline]``, with the rows that joins, groups and sinks need. Sources
        without changes are read when the state is created.

        Parameters
        ----------
        only, downstream_of
            As for `run`.
        memory
            The memory for the rows of all states, in bytes or such as ``"2GB"``, and the limit of each join of tables
            without changes. Further rows stay on disk.

        Returns
        -------
        context manager of dict
            The `Follower` of each sink: ``step`` applies available changes, ``run`` continues. Sinks that have steps in
            common have the same one. The end of the context closes them.

        Raises
        ------
        StateError
            If the state is in use by another process, belongs to another pipeline, or is damaged.
        PlanError
            If RocksDB is not installed.
        """
        schemas = self.check(mode="changes")
        from juncture.pipeline.local_changes import following

        sinks = chosen_sinks(self.file, only, downstream_of)
        return following(self.file, schemas, sinks, memory)

    def _engine(self, spark: SparkSession | None) -> Engine:
        key = None if spark is None else id(spark)
        if key not in self._engines:
            schemas = self.check(spark=spark)
            self._engines[key] = self._opened(schemas, spark)
        return self._engines[key]

    def _opened(
        self, schemas: Schemas, spark: SparkSession | Callable[[], SparkSession] | None, **settings: Any
    ) -> Engine:
        """Return an engine without rows: in this process, or of a session, which may start now."""
        if spark is None:
            from juncture.pipeline.local import LocalEngine

            return LocalEngine(self.file, schemas, **settings)
        from juncture.pipeline.spark import SparkEngine

        return SparkEngine(self.file, schemas, spark() if callable(spark) else spark, **settings)


def _engine_name(spark: object, engine: EngineName | None = None) -> EngineName:
    if engine is None:
        return "local" if spark is None else "spark"
    check_choice("engine", engine, get_args(EngineName))
    if spark is not None and engine == "local":
        raise SpecError(
            "engine='local' and spark= exclude each other. Remove one of them.", name="JN-ARGUMENT-CONFLICT"
        )
    return engine


def poll_interval_ms(value: str | TimeLength | None, *, argument: str = "poll_interval") -> int | None:
    """Return a polling interval in milliseconds, the unit of Spark's triggers, rounded up; None stays None."""
    if value is None:
        return None
    if not isinstance(value, str | TimeLength):
        raise SpecError(
            f"{argument}={value!r} ({type(value).__name__}) is not a duration. Expected text such as '10s', or a "
            "timedelta.",
            name="JN-ARGUMENT-TYPE",
        )
    nanoseconds = duration_ns(value, argument=argument)
    if nanoseconds < 0:
        raise SpecError(
            f"{argument}={value!r} is negative. Expected zero or more, such as '10s'.", name="JN-ARGUMENT-VALUE"
        )
    return -(-nanoseconds // 1_000_000)
