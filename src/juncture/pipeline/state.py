"""What a pipeline has written before, and of what: so that it is not done again while nothing has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juncture import __version__
from juncture.errors import JunctureError
from juncture.files.found import paths_of
from juncture.pipeline.graph import needed_for
from juncture.pipeline.model import KEPT_FORMATS, File, SinkSection, SourceSection
from juncture.pipeline.places import placed
from juncture.pipeline.sinks import is_here, sink_place
from juncture.pipeline.sources import format_name, resolved

_NAME = "written.json"


@dataclass(frozen=True)
class EarlierRuns:
    """What is known of earlier runs.

    Attributes
    ----------
    folder
        Where it is kept.
    written
        For each sink, of what its rows were made, where they are, and how many.
    """

    folder: Path
    written: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, folder: Path) -> EarlierRuns:
        """Return what a folder keeps; nothing if there is none, or it cannot be read."""
        try:
            written = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            written = {}
        return cls(folder, written if isinstance(written, dict) else {})

    def places(self) -> list[Path]:
        """Return the files and folders that were written and are as they were."""
        return [
            Path(each["place"])
            for each in self.written.values()
            if each.get("place") and each.get("files") == _files(Path(each["place"]))
        ]

    def rows_of(self, name: str, made_of: str | None, sink: SinkSection, folder: Path) -> int | None:
        """Return how many rows a sink has, if it is as it was written, and of the same; otherwise None."""
        known = self.written.get(name)
        if known is None or made_of is None or known.get("made_of") != made_of or not is_here(sink):
            return None
        place = sink_place(sink, folder).resolve()
        is_same = known.get("place") == str(place) and known.get("files") == _files(place)
        return known.get("rows", 0) if is_same else None

    def with_written(
        self, name: str, made_of: str | None, sink: SinkSection, folder: Path, rows: int | None
    ) -> EarlierRuns:
        """Return what is known when a sink has been written, and keep it."""
        place = sink_place(sink, folder).resolve() if is_here(sink) else None
        entry = {
            "made_of": made_of,
            "place": None if place is None else str(place),
            "files": None if place is None else _files(place),
            "rows": rows,
        }
        fresh = EarlierRuns(self.folder, {**self.written, name: entry})
        with placed(self.folder / _NAME) as path:
            path.write_text(json.dumps(fresh.written, indent=1), encoding="utf-8")
        return fresh


def fingerprint(file: File, sink: str, folder: Path, engine: str) -> str | None:
    """Return what the rows of a sink are made of: the version, all that the file says of them, and their files.

    Returns
    -------
    str or None
        None if a source does not tell whether it has changed, as tables do not.
    """
    found = file.sinks[sink]
    names = sorted(needed_for(file, [found.from_]))
    files = list[Any]()
    for name in names:
        if name in file.sources:
            inside = _inputs(resolved(file.sources[name], folder))
            if inside is None:
                return None
            files.append(inside)
    said = [repr(file.steps.get(name) or file.sources.get(name)) for name in names]
    said += [repr(check) for check in file.checks if check.of in names]
    whole = json.dumps([__version__, engine, repr(found), names, said, files])
    return hashlib.sha256(whole.encode()).hexdigest()


def _inputs(source: SourceSection) -> list[list[Any]] | None:
    if not source.paths or any("://" in path for path in source.paths):
        return None
    try:
        if format_name(source) in KEPT_FORMATS:
            return [status for path in source.paths for status in _files(Path(path))]
        return [_status(file) for path in source.paths for file in paths_of(path, "path")]
    except JunctureError:
        return None


def _files(place: Path) -> list[list[Any]]:
    """Return the files of a place, with their sizes and times."""
    if place.is_file():
        return [_status(place)]
    found = sorted(path for path in place.rglob("*") if path.is_file() and not path.name.startswith((".", "_")))
    return [_status(path) for path in found]


def _status(file: Path) -> list[Any]:
    status = file.stat()
    return [str(file), status.st_size, status.st_mtime_ns]
