"""``python -m type_table``, with the folder of the tests on the path: writes docs/reference/types.md."""

from __future__ import annotations

from support.session import session_for_tests
from type_table.arrow import ARROW, ARROW_NESTED
from type_table.outcomes import outcomes
from type_table.page import PAGE, page, section
from type_table.pandas import PANDAS, PANDAS_ARROW
from type_table.polars import POLARS
from type_table.spark import IN_SQL, Spark

if __name__ == "__main__":
    session = session_for_tests()
    libraries = (ARROW, ARROW_NESTED, PANDAS, PANDAS_ARROW, POLARS, Spark(session, IN_SQL))
    notes: list[str] = []
    sections = [section(each.name, outcomes(each), notes) for each in libraries]
    PAGE.write_text(page(sections, notes), encoding="utf-8")
    session.stop()
