"""Runs commands in processes that are killed: `python -m support.command_process` reads lives, and runs each.

A life is a line of JSON on standard input: the arguments of `juncture`, and where its files are cut, as on a full disk.
It is a fork, so that what takes long to load is loaded once. The next line says whether it is killed or ends by itself,
and how it ended is a line on standard output.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from typing import Any

import pyarrow as pa
from sqlglot.dialects import duckdb, spark  # noqa: F401 - loaded before the forks

import juncture as jn
from juncture.cli import changes, pipeline  # noqa: F401 - loaded before the forks
from juncture.cli.main import app
from juncture.pipeline import local_changes, schemas  # noqa: F401 - loaded before the forks


class Commands:
    """Commands that run one after the other, in forks of a process that is started once."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "support.command_process"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, text=True, env=environment, **pipes)

    def begin(self, *arguments: str, file_bytes: int | None = None) -> None:
        """Begin a command."""
        self._write(json.dumps({"arguments": arguments, "file_bytes": file_bytes}))

    def end(self, how: str = "wait") -> int:
        """Wait until the command ends, or ``"kill"`` it, and return its exit code."""
        self._write(how)
        return int(self._process.stdout.readline())

    def _write(self, line: str) -> None:
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the process, which kills a command that still runs."""
        self._process.stdin.close()
        self._process.wait()


def live(arguments: list[str], file_bytes: int | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    app(arguments)


def main() -> None:
    # What is compiled is loaded before the forks.
    ids = pa.table({"id": pa.array([1], pa.int64()), "on": pa.array([1], pa.int64())})
    with jn.changes(ids.schema, ids.schema, jn.Asof(on="on", by="id")) as join:
        join.populate(left=ids, right=ids)
        join.apply(left=ids, right=ids)
    while line := sys.stdin.readline():
        process = os.fork()
        if process == 0:
            code: Any = 1
            try:
                live(**json.loads(line))
            except SystemExit as end:
                code = end.code or 0
            finally:
                os._exit(code)
        if sys.stdin.readline() != "wait\n":
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
