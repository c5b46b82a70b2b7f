"""What workers ask of the in-process engine: one thread, tables in, rows out."""
from __future__ import annotations
import numpy as np
import pyarrow as pa
from collections.abc import Iterator
from juncture import reference
from juncture.spec.asof import ResolvedAsof, Asof
from juncture.local.scan import Source


def match(join: ResolvedAsof, left: pa.Table, right: pa.Table):
    pairs = [(l, r) for l, rs in enumerate(reference._matches(join, left, right)) for r in rs]
    return np.array([p[0] for p in pairs], np.int64), np.array([p[1] for p in pairs], np.int64)


def join(spec: Asof, left: pa.Table, right: pa.Table|Source, spill=None) -> Iterator[pa.Table]:
    if isinstance(right, Source):
        batches=[b for p in range(len(right.part_rows)) for b in right.read(p, right.schema.names)]
        right = pa.Table.from_batches(batches, right.schema) if batches else right.schema.empty_table()
    left=left.unify_dictionaries().combine_chunks(); right=right.unify_dictionaries().combine_chunks()
    j=spec.resolve(left.schema, right.schema)
    yield reference.asof(j, left, right)
