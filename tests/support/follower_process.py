"""Follows the shop in processes that are killed: `python -m support.follower_process` reads lives, and runs each.

A life is a line of JSON on standard input: what to follow, and where it is killed. It is a fork, so that what takes
long to load is loaded once. How it ended is a line on standard output.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

import juncture as jn
from juncture.incremental.join import ChangeJoin
from juncture.incremental.sinks.postgres import PostgresSink
from juncture.incremental.sources.postgres import PostgresSource
from juncture.incremental.state.store import Store
from support.shop import SPEC, Database, following

STAGES: dict[str, tuple[type, str, bool]] = {
    "the tables are read": (ChangeJoin, "populate", False),
    "the state is populated": (ChangeJoin, "populate", True),
    "the sink is about to commit": (PostgresSink, "_apply", True),
    "the slot is had": (PostgresSource, "_take_slot", True),
    "changes are read": (ChangeJoin, "apply", False),
    "the state is about to be written": (Store, "commit", False),
    "the state is written": (Store, "commit", True),
    "the sink has committed": (PostgresSink, "write", True),
    "the slot is told": (PostgresSource, "acknowledge", True),
}
"""At which calls a process is killed, before them or after."""


def kill_at(stage: str) -> None:
    """Kill this process where it first comes to a stage."""
    owner, name, after = STAGES[stage]
    plain = getattr(owner, name)

    def killed(*arguments: Any, **named: Any) -> None:
        if after:
            plain(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, killed)


def keep_offset_apart(path: Path) -> None:
    """Have joins write their offset to a file, after the epoch, as it must not be done."""

    def apart(plain: Callable[..., list[pa.RecordBatch]]) -> Callable[..., list[pa.RecordBatch]]:
        def taken(join: ChangeJoin, *, offset: Any, **tables: Any) -> list[pa.RecordBatch]:
            given = plain(join, **tables)
            path.write_text(json.dumps(offset))
            return given

        return taken

    ChangeJoin.populate, ChangeJoin.apply = apart(ChangeJoin.populate), apart(ChangeJoin.apply)
    ChangeJoin.offset = property(lambda _: json.loads(path.read_text()) if path.exists() else None)


def live(dsn: str, folder: str, stage: str | None, is_apart: bool) -> None:
    """Follow until the sale 0 has come to the sink, or the process is killed."""
    if is_apart:
        keep_offset_apart(Path(folder, "offset.json"))
    if stage is not None:
        kill_at(stage)
    with psycopg.connect(dsn, autocommit=True) as connection:
        database = Database(dsn, connection)
        with following(database, folder=Path(folder, "state")) as follower:
            follower.start()
            until = time.monotonic() + 600
            while not database.rows("SELECT FROM answer WHERE id_right = 0"):
                follower.step(0.2)
                if time.monotonic() > until:
                    raise TimeoutError(stage)


def main() -> None:
    # What is compiled is loaded before the forks.
    ids = pa.table({"id": pa.array([1], pa.int32()), "buyer_id": pa.array([1], pa.int32())})
    with jn.changes(ids.schema, ids.schema, SPEC) as join:
        join.populate(left=ids, right=ids)
        join.apply(left=ids, right=ids)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            code = 1
            try:
                live(**json.loads(line))
                code = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
