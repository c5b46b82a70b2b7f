"""Joins and views with state in a folder and another memory policy than that of ``memory=``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import rocksdict

import juncture as jn
from juncture.incremental import join as joins
from juncture.incremental import view as views
from juncture.incremental.changes.source import Source
from juncture.incremental.state.policy import MemoryPolicy
from juncture.local.resources import resources_here
from juncture.spec.base import Spec

__all__ = ["ON_DISK", "SMALL_STATE", "changes_in", "view_in", "write_version"]

_PLENTY = MemoryPolicy.of(1 << 26)

ON_DISK = replace(_PLENTY, in_memory_bytes=0, paged_bytes=0, piece_bytes=0, block_cache_bytes=0, changed_bytes=0)
"""No row stays in memory after an epoch."""

SMALL_STATE = replace(
    _PLENTY,
    in_memory_bytes=0,
    paged_bytes=0,
    initial_bytes=0,
    piece_bytes=0,
    block_cache_bytes=0,
    merged_runs=2,
    batch_rows=6,
    block_rows=2,
)
"""No row stays in memory, and rows on disk are in pieces as small as possible."""


def changes_in(
    left: pa.Schema, right: pa.Schema, spec: Spec, *, state: Path, policy: MemoryPolicy, **more: Any
) -> jn.ChangeJoin:
    setup = joins.ChangeSetup(spec, left, right, **more)
    return joins.ChangeJoin(setup, resources_here(None), joins.store_in(state, setup, policy))


def view_in(state: Path, sql: str, *, sources: Mapping[str, Any], policy: MemoryPolicy, **more: Any) -> jn.View:
    tables = {name: each if isinstance(each, Source) else Source(each) for name, each in sources.items()}
    setup = views.ViewSetup(sql, tables, **more)
    return views.View(setup, views.store_in(state, setup, policy))


def write_version(folder: Path, key: bytes, version: int) -> None:
    """Have a state folder be of another version, whose identity has this key."""
    database = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
    database[key] = json.dumps({"version": version}).encode()
    database.close()
