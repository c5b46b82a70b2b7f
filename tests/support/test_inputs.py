from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from strategies import examples
from support.inputs import FORMS, pass_as, random_chunks
from support.tables import difference


@given(examples(), st.randoms(use_true_random=False))
def test_every_form_holds_the_same_rows(tmp_path_factory, example, chance):
    table = example.right
    assert difference(pa.Table.from_batches(random_chunks(table, chance)), table, ordered=True) is None
    for form in FORMS:
        passed = pass_as(form, table, tmp_path_factory.mktemp("form") / form, chance)
        if isinstance(passed, pa.Table):
            read = passed
        elif form == "dataset":
            read = passed.to_table()
        elif form in ("reader", "batches"):
            read = pa.Table.from_batches(passed)
        elif form == "glob":
            paths = sorted(Path(passed).parent.glob("*.parquet"))
            read = pa.concat_tables([pq.read_table(path).cast(table.schema) for path in paths])
        elif form == "paths":
            read = pa.concat_tables([pq.read_table(path).cast(table.schema) for path in passed])
        else:
            read = ds.dataset(passed).to_table()
        assert difference(read, table, ordered=True) is None, form
