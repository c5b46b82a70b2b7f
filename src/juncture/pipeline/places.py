"""Outputs that appear completely or not at all: replaced files and folders, and files added to folders."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from juncture.files.output import replacing


@contextmanager
def placed(place: Path) -> Iterator[Path]:
    """Yield a temporary path beside a file or folder, which replaces it if the block succeeds."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with replacing(place) as fresh:
        yield fresh


@contextmanager
def adding(place: Path) -> Iterator[Path]:
    """Yield a temporary folder, whose files are moved to `place` if the block succeeds. Their names must be unique."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.{secrets.token_hex(4)}.new")
    moved = list[Path]()
    try:
        yield fresh
        for file in sorted(
            path for path in fresh.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))
        ):
            target = place / file.relative_to(fresh)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)
            moved.append(target)
    except BaseException:
        for target in moved:
            target.unlink(missing_ok=True)
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
