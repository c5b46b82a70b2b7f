"""``python -m type_table``, with the folder of the tests on the path: writes docs/types.md anew."""

from __future__ import annotations

from type_table.arrow import ARROW, ARROW_NESTED
from type_table.outcomes import outcomes
from type_table.page import PAGE, page, section
from type_table.pandas import PANDAS, PANDAS_ARROW
from type_table.polars import POLARS

if __name__ == "__main__":
    libraries = (ARROW, ARROW_NESTED, PANDAS, PANDAS_ARROW, POLARS)
    PAGE.write_text(page([section(each.name, outcomes(each)) for each in libraries]), encoding="utf-8")
