"""The page of SQL functions says what views do."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "sql_functions.py"


def test_the_page_of_sql_functions_is_up_to_date():
    written = runpy.run_path(str(SCRIPT))
    assert written["PAGE"].read_text(encoding="utf-8") == written["page"](), f"Run python tools/{SCRIPT.name}."
