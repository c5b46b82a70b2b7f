"""A pipeline as Python has it: read from a TOML file, checked, explained, run, or taken step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from juncture.errors import PlanError, SpecError, did_you_mean
from juncture.pipeline.engine import Engine, Watch, unwatched
from juncture.pipeline.graph import needed_for, steps_in_order
from juncture.pipeline.model import File
from juncture.pipeline.positions import Path as Keys
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

# What checks and runs a pipeline is loaded when it is asked for, so that mistakes in a file are said at once.


class Pipeline:
    """Sources, steps, checks and sinks, as one TOML file says them.

    Made by `Pipeline.from_toml`.

    Parameters
    ----------
    file, lines
        What the file says, and on which lines.
    path
        Where it is.

    Examples
    --------
    >>> import tempfile, pathlib
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
    >>> pipeline = Pipeline.from_toml(folder / "juncture.toml")
    >>> pipeline.step("priced").to_pydict()
    {'ts': [2, 5], 'bid': [7.0, 7.5]}
    """

    def __init__(self, file: File, lines: Mapping[Keys, int], path: Path) -> None:
        self.file = file
        self.path = path
        self._lines = lines
        self._engines: dict[int | None, tuple[Engine, set[str]]] = {}

    @classmethod
    def from_toml(cls, path: str | Path, parameters: Mapping[str, Any] | None = None) -> Pipeline:
        """Read a pipeline's file.

        Parameters
        ----------
        path
            The file. Paths within it go from where it is.
        parameters
            Values of its parameters, in place of those that it names.

        Raises
        ------
        PipelineError
            With every problem of the file, its line, and how to mend it.
        """
        place = Path(path)
        file, lines = read_file(place.read_text(encoding="utf-8"), str(path), parameters)
        return cls(file, lines, place)

    @property
    def folder(self) -> Path:
        """The folder that the file is in."""
        return self.path.absolute().parent

    @property
    def steps(self) -> list[str]:
        """The names of the steps, each after those that it reads."""
        return steps_in_order(self.file)

    def check(self, engine: EngineName = "spark", *, is_stream: bool = False, of_changes: bool = False) -> Schemas:
        """Hold the file against the columns of its sources, without reading rows or starting Spark.

        Parameters
        ----------
        engine
            What is to run it: ``"spark"``, or ``"local"`` for this process.
        is_stream
            Whether it is to run as a stream, which goes on writing to places that are there.
        of_changes
            Whether its sinks are to be kept up to date, as `changes` does.

        Returns
        -------
        Schemas
            The Arrow schema of each source and step; None where only Spark can tell.

        Raises
        ------
        PipelineError
            With every problem, its line, and how to mend it.
        """
        from juncture.pipeline.schemas import check_file
        from juncture.pipeline.state import EarlierRuns

        problems = Problems(self._lines)
        state = EarlierRuns.of(self.folder / self.file.pipeline.state)
        schemas = check_file(
            self.file,
            self.folder,
            problems,
            engine=engine,
            own=state.places(),
            is_stream=is_stream,
            of_changes=of_changes,
        )
        if of_changes:
            from juncture.pipeline.changing import check_changes

            check_changes(self.file, self.folder, schemas, problems, engine)
        if problems.found:
            raise PipelineError(str(self.path), problems.found)
        return schemas

    def step(self, name: str, spark: SparkSession | None = None) -> Any:
        """Return the rows of a step or a source.

        Parameters
        ----------
        name
            The step.
        spark
            A Spark session; without one the step is run in this process.

        Returns
        -------
        pyspark.sql.DataFrame or pyarrow.Table
            On Spark lazy, in this process a table.

        Raises
        ------
        SpecError
            If there is no such step.
        PipelineError
            If the file does not fit the columns of its sources.
        """
        known = [*self.file.sources, *self.file.steps]
        if name not in known:
            raise SpecError(f"There is no step or source {name!r}. {did_you_mean(name, known)}")
        engine, made = self._engine(spark)
        needed = needed_for(self.file, [name])
        for each in [*self.file.sources, *self.steps]:
            if each in needed and each not in made:
                engine.make(each)
                made.add(each)
        return engine.rows_of(name)

    def explain(
        self,
        format: Literal["text", "html"] = "text",  # noqa: A002 - as in Plan.explain
        spark: SparkSession | None = None,
    ) -> str:
        """Say what flows where, and how each join will be done.

        Parameters
        ----------
        format
            ``"text"``, or ``"html"`` for a page.
        spark
            A Spark session, where it is to run on Spark. Small jobs may look at the sources then.

        Raises
        ------
        PipelineError
            If the file does not fit the columns of its sources.
        PlanError
            If a page is asked for, and what draws it is not installed.
        """
        from juncture.pipeline.explain import NOT_YET, Explained, planned_here

        check_choice("format", format, ("text", "html"))
        if spark is None:
            plan_of = planned_here(self.file, self.folder, self.check("local"))
            explained = Explained(self.file, self.folder, self.check("local"), plan_of, "in this process", (NOT_YET,))
        else:
            explained = self._explained_on(spark)
        return explained.html() if format == "html" else explained.text()

    def _explained_on(self, spark: SparkSession) -> Explained:
        from juncture.pipeline.asked import columns_asked
        from juncture.pipeline.explain import Explained
        from juncture.pipeline.spark import SparkEngine

        schemas = self.check("spark")
        read = {name for step in self.file.steps.values() for name in step.inputs}
        shown = [sink.from_ for sink in self.file.sinks.values()]
        asked = columns_asked(self.file, schemas, [*shown, *(name for name in self.steps if name not in read)])
        engine = SparkEngine(self.file, self.folder, schemas, spark, asked=asked)
        for name in [*self.file.sources, *self.steps]:
            engine.make(name)
        return Explained(self.file, self.folder, schemas, engine.plan, "on Spark")

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
        """Run the pipeline: make what its sinks need, check it, and write them.

        Parameters
        ----------
        spark
            A Spark session, or what starts one when there is something to do; without, it runs in this process.
        only
            The sinks to write, or steps whose sinks are meant; all by default.
        downstream_of
            Sources and steps: only sinks that depend on them are written.
        force
            Whether to write sinks whose inputs are unchanged.
        memory
            How much memory joins in this process may take, such as ``"2GB"``.
        watch
            What shows what is under way.

        Raises
        ------
        PipelineError
            If the file does not fit the columns of its sources.
        DataError
            If a check fails. Nothing has been written then.
        """
        from juncture.pipeline.asked import columns_asked
        from juncture.pipeline.run import run

        name: EngineName = "local" if spark is None else "spark"
        schemas = self.check(name)

        def begin(kept: Sequence[str]) -> Engine:
            asked = columns_asked(self.file, schemas, [sink.from_ for sink in self.file.sinks.values()])
            if spark is None:
                from juncture.pipeline.local import LocalEngine

                return LocalEngine(self.file, self.folder, schemas, watch, memory, asked)
            from juncture.pipeline.spark import SparkEngine

            session = spark() if callable(spark) else spark
            return SparkEngine(self.file, self.folder, schemas, session, watch, kept=kept, asked=asked)

        return run(
            self.file, self.folder, begin, engine=name, only=only, downstream_of=downstream_of, force=force, watch=watch
        )

    def stream(
        self,
        spark: SparkSession,
        *,
        only: Sequence[str] = (),
        downstream_of: Sequence[str] = (),
        every: str | None = None,
    ) -> dict[str, StreamingQuery]:
        """Start the pipeline as a stream: a query for each sink, which goes on from its checkpoint.

        Parameters
        ----------
        spark
            A Spark session.
        only, downstream_of
            As for `run`.
        every
            How often to look for rows, such as ``"10 seconds"``; None to do what is there, and end.

        Returns
        -------
        dict
            The query of each sink.

        Raises
        ------
        PipelineError
            If the file does not fit the columns of its sources.
        PlanError
            If a sink has no source that is a stream, or Spark has no stream of it.
        """
        from juncture.pipeline.spark import SparkEngine
        from juncture.pipeline.streaming import started

        schemas = self.check("spark", is_stream=True)
        engine = SparkEngine(self.file, self.folder, schemas, spark, is_stream=True)
        return started(self.file, self.folder, engine, only, downstream_of, every)

    def changes(
        self,
        spark: SparkSession,
        *,
        only: Sequence[str] = (),
        downstream_of: Sequence[str] = (),
        every: str | None = None,
    ) -> dict[str, StreamingQuery]:
        """Start a query for each sink that takes changes: they go on from a checkpoint of their own.

        Parameters
        ----------
        spark
            A Spark session.
        only, downstream_of
            As for `run`.
        every
            How often to look for changes, such as ``"10 seconds"``; None to take what is there, and end.

        Returns
        -------
        dict
            The query of each sink. Their rows have a column ``_weight``: how often each comes, or goes where it is
            negative. Their sum is what a batch run of the tables as they are writes.

        Raises
        ------
        PipelineError
            If the file does not fit the columns of its sources, or cannot be kept up to date.
        PlanError
            If Spark has no stream of a sink.
        """
        from juncture.pipeline.spark_changes import started_changes

        schemas = self.check("spark", is_stream=True, of_changes=True)
        return started_changes(self.file, self.folder, schemas, spark, only, downstream_of, every)

    def follow(
        self, *, only: Sequence[str] = (), downstream_of: Sequence[str] = (), memory: str | int | None = None
    ) -> AbstractContextManager[dict[str, Follower]]:
        """Keep each sink that takes changes up to date in this process, from a state that outlives it.

        Changes are taken from the files of the sources' folders in the order of their names, each once. What steps
        hold follows from the rows of the sources that change, which are kept in ``pipeline.state``: it is worked out
        again when the pipeline is opened, and is in memory.

        Parameters
        ----------
        only, downstream_of
            As for `run`.
        memory
            How much memory joins of tables that do not change may take, such as ``"2GB"``.

        Returns
        -------
        context manager of dict
            By sink, a `Follower`: its ``step`` takes what has changed, ``run`` goes on. When the context ends, all is
            closed.

        Raises
        ------
        PipelineError
            If the file does not fit the columns of its sources, or cannot be kept up to date.
        StateError
            If the state is open in another process, of another pipeline, or damaged.
        PlanError
            If RocksDB is not installed.
        """
        schemas = self.check("local", is_stream=True, of_changes=True)
        try:
            from juncture.pipeline.local_changes import following
        except ImportError as error:
            raise PlanError(
                "Pipelines keep what changes in RocksDB, whose Python package is not installed "
                f"({error}). Install it by pip install 'juncture[changes]'."
            ) from error
        return following(self.file, self.folder, schemas, only, downstream_of, memory)

    def _engine(self, spark: SparkSession | None) -> tuple[Engine, set[str]]:
        """Return the engine that steps are asked of, and what it has made."""
        key = None if spark is None else id(spark)
        if key not in self._engines:
            schemas = self.check("local" if spark is None else "spark")
            if spark is None:
                from juncture.pipeline.local import LocalEngine

                self._engines[key] = LocalEngine(self.file, self.folder, schemas), set()
            else:
                from juncture.pipeline.spark import SparkEngine

                self._engines[key] = SparkEngine(self.file, self.folder, schemas, spark), set()
        return self._engines[key]
