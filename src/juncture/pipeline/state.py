"""Earlier runs of a pipeline: its outputs and the fingerprints of their inputs, to skip unchanged sinks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juncture import __version__
from juncture.errors import JunctureError
from juncture.files.formats import paths_of
from juncture.pipeline.graph import needed_for
from juncture.pipeline.model import SPARK_ONLY_FORMATS, File, SinkSection, SourceSection
from juncture.pipeline.sinks import is_here, placed, sink_place
from juncture.pipeline.sources import format_name, resolved

_NAME = "written.json"


@dataclass(frozen=True)
class EarlierRuns:
    """Earlier runs. `written` has the fingerprint, path, files and number of rows of each sink."""

    folder: Path
    written: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, folder: Path) -> EarlierRuns:
        """Return the earlier runs in a folder; none if it is missing or unreadable."""
        try:
            written = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            written = {}
        return cls(folder, written if isinstance(written, dict) else {})

    def places(self) -> list[Path]:
        """Return the outputs that are unchanged since they were written."""
        return [
            Path(each["place"])
            for each in self.written.values()
            if each.get("place") and each.get("files") == _files(Path(each["place"]))
        ]

    def rows_of(self, name: str, made_of: str | None, sink: SinkSection, folder: Path) -> int | None:
        """Return the number of rows of a sink that is unchanged and has this fingerprint, else None."""
        known = self.written.get(name)
        if known is None or made_of is None or known.get("made_of") != made_of or not is_here(sink):
            return None
        place = sink_place(sink, folder).resolve()
        is_same = known.get("place") == str(place) and known.get("files") == _files(place)
        return known.get("rows", 0) if is_same else None

    def with_written(
        self, name: str, made_of: str | None, sink: SinkSection, folder: Path, rows: int | None
    ) -> EarlierRuns:
        """Record a written sink, and store and return the result."""
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
    """Return a fingerprint of a sink: version, sections and input files. None if a source has no change information."""
    section = file.sinks[sink]
    names = sorted(needed_for(file, [section.from_]))
    files = list[Any]()
    for name in names:
        if name in file.sources:
            inside = _inputs(resolved(file.sources[name], folder))
            if inside is None:
                return None
            files.append(inside)
    sections = [repr(file.steps.get(name) or file.sources.get(name)) for name in names]
    sections += [repr(check) for check in file.checks if check.from_ in names]
    whole = json.dumps([__version__, engine, repr(section), names, sections, files])
    return hashlib.sha256(whole.encode()).hexdigest()


def _inputs(source: SourceSection) -> list[list[Any]] | None:
    if not source.paths or any("://" in path for path in source.paths):
        return None
    try:
        if format_name(source) in SPARK_ONLY_FORMATS:
            return [status for path in source.paths for status in _files(Path(path))]
        return [_status(file) for path in source.paths for file in paths_of(path, "path")]
    except JunctureError:
        return None


def _files(place: Path) -> list[list[Any]]:
    """Return the files of an output, with their sizes and modification times."""
    if place.is_file():
        return [_status(place)]
    files = sorted(path for path in place.rglob("*") if path.is_file() and not path.name.startswith((".", "_")))
    return [_status(path) for path in files]


def _status(file: Path) -> list[Any]:
    status = file.stat()
    return [str(file), status.st_size, status.st_mtime_ns]
