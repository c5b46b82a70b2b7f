"""Spark for one command: started quietly, with progress of its jobs, and stopped at the end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any

import pyarrow.parquet as pq

from juncture.cli.progress import Step, step

_POLL_S = 0.1
_WITH_UI = {"spark.ui.enabled": "true", "spark.ui.port": "0"}


@contextmanager
def spark_session(
    *,
    is_analyzed: bool = False,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Any]:
    """Start Spark, and stop it when the block ends. With ``is_analyzed``, its UI has the measurements of stages."""
    from juncture.spark.session.session import session_at

    with tempfile.TemporaryFile() as log, warnings.catch_warnings():
        # Commands pass no pandas tables to Spark, so its warnings about pandas versions do not matter.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        with step("Starting Spark"), _standard_error_to(log):
            chosen = {**(_WITH_UI if is_analyzed else {}), **(settings or {})}
            session = session_at(master or "local[*]", remote=remote, settings=chosen)
            # Spark's default, INT96, has no time zone, so times would change when read again.
            session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        if not logging.getLogger("juncture").isEnabledFor(logging.INFO):
            # PySpark logs every error that it raises, but the command prints it.
            logging.disable(logging.CRITICAL)
        try:
            with _cancelled_at_the_end(session):
                yield session
        finally:
            # A signal to the process group has already ended the JVM.
            with suppress(Exception):
                session.stop()
            logging.disable(logging.NOTSET)


@contextmanager
def _cancelled_at_the_end(session: Any) -> Iterator[None]:
    """Cancel Spark's jobs on SIGTERM, or their tasks would continue to write to a folder that is then removed."""
    before = signal.getsignal(signal.SIGTERM)
    # Only the main thread may set handlers, and without an earlier handler there is nothing to extend.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        with suppress(Exception):
            _cancel_jobs(session)
        before(number, frame)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _cancel_jobs(session: Any) -> None:
    if _is_connect(session):
        session.interruptAll()
    else:
        session.sparkContext.cancelAllJobs()


def _is_connect(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


@contextmanager
def _standard_error_to(log: IO[bytes]) -> Iterator[None]:
    """Redirect the standard error of processes that the block starts to a file; the JVM inherits the descriptor."""
    sys.stderr.flush()
    copy, python_stderr = os.dup(2), sys.stderr
    os.dup2(log.fileno(), 2)
    try:
        with os.fdopen(os.dup(copy), "w", encoding=python_stderr.encoding, buffering=1) as terminal_stderr:
            if _is_descriptor_2(python_stderr):
                sys.stderr = terminal_stderr
            yield
    finally:
        sys.stderr = python_stderr
        os.dup2(copy, 2)
        os.close(copy)


def _is_descriptor_2(stream: Any) -> bool:
    """Return whether a stream writes to descriptor 2, which is not so under a test runner."""
    try:
        return bool(stream.fileno() == 2)
    except (OSError, ValueError):
        return False


@contextmanager
def step_on(session: Any, description: str) -> Iterator[Step]:
    """Show a step; with a session, the tasks of the block's Spark jobs are its progress."""
    with step(description) as progress, ExitStack() as stack:
        if session is not None:
            stages = _connect_stages if _is_connect(session) else _classic_stages
            stack.enter_context(stages(session, progress))
        yield progress


@contextmanager
def _connect_stages(session: Any, progress: Step) -> Iterator[None]:
    def show(stages: Any, **_: Any) -> None:
        done = sum(stage.num_completed_tasks for stage in stages or ())
        progress.update(done, sum(stage.num_tasks for stage in stages or ()))

    session.registerProgressHandler(show)
    try:
        yield
    finally:
        session.removeProgressHandler(show)


@contextmanager
def _classic_stages(session: Any, progress: Step) -> Iterator[None]:
    tracker = session.sparkContext.statusTracker()
    finished = threading.Event()
    tasks: dict[int, tuple[int, int]] = {}

    def poll() -> None:
        while not finished.wait(_POLL_S):
            for job in tracker.getActiveJobsIds():
                for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
                    info = tracker.getStageInfo(stage)
                    if info is not None:
                        tasks[stage] = info.numCompletedTasks, info.numTasks
            progress.update(sum(done for done, _ in tasks.values()), sum(total for _, total in tasks.values()))

    watcher = threading.Thread(target=poll, name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def write_parquet(session: Any, frame: Any, target: Path) -> int:
    """Write the rows of a Spark query to a folder of Parquet files, and return their number."""
    with step_on(session, "Joining on Spark"):
        frame.write.parquet(str(target.absolute()))
    return sum(pq.read_metadata(file).num_rows for file in target.glob("*.parquet"))
