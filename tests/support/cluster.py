"""A standalone Spark cluster on this machine: a master and workers, each a process that a test may kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

HOST = "127.0.0.1"
TIMEOUT_S = 120.0
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What Java is told that does not run for long enough to be worth compiling well."""


@dataclass(frozen=True)
class Worker:
    """A worker, in a process group of its own with all that it starts."""

    process: subprocess.Popen[bytes]
    scratch: Path

    def kill(self) -> None:
        """End the worker and its executors at once, as a crash of the machine would."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def shuffles(self) -> set[str]:
        """Return the numbers of the shuffles that its tasks have written data of."""
        return {path.name.split("_")[1] for path in self.scratch.rglob("shuffle_*.data")}


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    url: str
    workers: tuple[Worker, ...]


@contextmanager
def standalone_cluster(folder: Path, *, workers: int, memory: str) -> Iterator[Cluster]:
    """Run a master and workers of one core each."""
    port = _free_port()
    url = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        master = _start("master.Master", ["--host", HOST, "--port", str(port)], folder / "master")
        stack.callback(_end, master)
        wait_for(lambda: _listens(port), "the master")
        running = []
        for number in range(workers):
            scratch = folder / f"worker-{number}"
            options = ["--host", HOST, "--cores", "1", "--memory", memory, "--work-dir", str(scratch / "work"), url]
            worker = Worker(_start("worker.Worker", options, scratch), scratch)
            stack.callback(_end, worker.process)
            running.append(worker)
        yield Cluster(url, tuple(running))


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until something has happened.

    Raises
    ------
    TimeoutError
        If it takes too long.
    """
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {TIMEOUT_S:.0f} s for {what}")
        time.sleep(0.02)


def _start(role: str, options: list[str], folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True)
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", "--webui-port", "0", *options]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=TIMEOUT_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
