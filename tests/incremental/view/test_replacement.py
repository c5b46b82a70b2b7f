"""A view whose query is replaced has the answer of DuckDB to the new one, and goes on from there."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import juncture as jn
from incremental.view.test_queries import QUERIES
from support.state import SMALL_STATE, view_in
from support.viewing import SCHEMAS, Viewed, tabled


class Replaced(Viewed):
    """A view of random tables, whose query is replaced now and then."""

    def replace(self, query: str) -> list[Any]:
        """Replace the query, with the tables that the view asks for."""
        before = self.view.schema
        given = self.view.replace(query, **self.needed(query))
        self.query = query
        if self.view.schema != before:
            self.answer.clear()
        self.receive(given)
        return given

    def needed(self, query: str) -> dict[str, Any]:
        lines = [line for line in self.view.explain(query).splitlines() if line.endswith("pass its table")]
        names = [line.split()[-4].lstrip("├└─│ ") for line in lines]
        return {name: tabled(self.there[name], SCHEMAS[name]) for name in names}


class ReplacedOnDisk(Replaced):
    def opened(self) -> jn.View:
        return view_in(self.folder, self.query, sources=SCHEMAS, policy=SMALL_STATE)


@settings(max_examples=150, deadline=None)
@given(
    queries=st.lists(st.sampled_from(list(QUERIES.values())), min_size=2, max_size=4),
    seed=st.integers(0, 2**32 - 1),
    where=st.sampled_from(["memory", "folder", "disk"]),
)
def test_any_query_replaces_any_other(queries, seed, where, tmp_path_factory):
    folder = None if where == "memory" else tmp_path_factory.mktemp("state") / "view"
    viewed = (ReplacedOnDisk if where == "disk" else Replaced)(queries[0], seed, folder)
    viewed.step()
    viewed.step()
    for query in queries[1:]:
        viewed.replace(query)
        viewed.step()
        viewed.step()
    viewed.view.close()
