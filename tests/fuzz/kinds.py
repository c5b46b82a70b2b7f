"""The kinds of cases."""

from __future__ import annotations

from fuzz.changes import CHANGES
from fuzz.joins import JOINS
from fuzz.kind import Kind
from fuzz.streams import STREAMS
from fuzz.views import VIEWS

__all__ = ["KINDS"]

KINDS: dict[str, Kind] = {"joins": JOINS, "views": VIEWS, "streams": STREAMS, "changes": CHANGES}
