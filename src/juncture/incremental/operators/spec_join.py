"""Outer, inequality and as-of joins in queries, by a join spec."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa

from juncture.columnar.conversion import converted
from juncture.errors import JunctureError
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches
from juncture.incremental.expressions.expression import Constant, Expression, evaluate
from juncture.incremental.operators.eviction import Frontiers, Future, least_values
from juncture.incremental.operators.operator import ViewOperator, batch_of
from juncture.incremental.operators.stored_join import StoredJoinOperator
from juncture.kernels.array_types import Words
from juncture.matching.output import Output, project, stored_join
from juncture.spec.asof import ResolvedAsof
from juncture.spec.base import Spec
from juncture.spec.schema import SIDES, Side


class SpecJoinOperator(StoredJoinOperator):
    """Runs a join spec over computed ``columns`` of two inputs, by internal name; ``texts`` are names for messages."""

    def __init__(
        self,
        label: str,
        types: Sequence[pa.DataType],
        sources: Mapping[Side, ViewOperator],
        columns: Mapping[Side, Mapping[str, Expression]],
        spec: Spec,
        output_names: Sequence[str],
        texts: Mapping[str, str],
    ) -> None:
        self._columns = columns
        self._schemas: Mapping[Side, pa.Schema] = {
            side: pa.schema([(name, value.type) for name, value in columns[side].items()]) for side in SIDES
        }
        self._texts = texts
        with self._readable_errors():
            resolved = spec.resolve(self._schemas["left"], self._schemas["right"])
            join = stored_join(resolved)
        self._domain = join.domain if isinstance(join, ResolvedAsof) else None
        # All changes that are possible, by bounds of the right value of an as-of join. Of the right rows before them,
        # only the last one of each key is needed.
        self.superseding: Future = ()
        self._output_names = output_names
        self._output = Output(join, resolved.user_schema(self._schemas["left"], self._schemas["right"]))
        super().__init__(label, types, sources, join, self._output)

    def step(self, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the inserted and deleted rows of the join."""
        with self._readable_errors():
            return super().step(
                [self._computed(side, batches) for side, batches in zip(SIDES, input_changes, strict=True)]
            )

    def forget(self, frontiers: Frontiers) -> None:
        """Remove rows that no future change can need, once they may be the majority."""
        super().forget(frontiers)
        right = self.sides["right"]
        if self._domain is None or not self.superseding or not right.arrangement.may_evict:
            return
        limits = least_values(self.superseding, frontiers)
        if limits is not None:
            limit = min(int(self._domain.encode(each)[0][0]) for each in limits)
            right.arrangement.evict(partial(right.superseded, limit=limit))

    def stored_values(self, side: Side) -> list[Expression]:
        """Return the values of the stored columns of a side; NULL for those that are stored in another type."""
        stored = [(self._columns[side][field.name], field.type) for field in self.sides[side].schema]
        return [value if value.type == data_type else Constant(data_type, None) for value, data_type in stored]

    def part_hashes(self, input_number: int, batch: pa.RecordBatch, /) -> Words:
        """Return the hashes of the keys of a side."""
        with self._readable_errors():
            (computed, _), *_ = self._computed(
                SIDES[input_number], [ChangeBatch(batch, np.zeros(batch.num_rows, np.int64))]
            )
            return super().part_hashes(input_number, computed)

    def _computed(self, side: Side, batches: ChangeBatches) -> ChangeBatches:
        schema = self.sides[side].schema
        rows = []
        for batch, weights in batches:
            arrays = [evaluate(each, batch.columns, batch.num_rows) for each in self._columns[side].values()]
            rows.append(ChangeBatch(project(batch_of(arrays, self._schemas[side]), schema), weights))
        return rows

    def _output_rows(self, changes: ChangeBatches) -> ChangeBatches:
        result = []
        for batch, weights in changes:
            start = 0
            for finished in self._output.finished([batch]):
                fields = zip(self._output_names, self.schema, strict=True)
                arrays = [converted(finished.column(name), field.type) for name, field in fields]
                result.append(ChangeBatch(batch_of(arrays, self.schema), weights[start : start + finished.num_rows]))
                start += finished.num_rows
        return result

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        try:
            yield
        except JunctureError as error:
            # The lines after the first show the internal predicate.
            text = error.message.partition("\n")[0]
            text = re.sub(r"'([lr]\d+)'", lambda match: repr(self._texts.get(match[1], match[1])), text)
            raise type(error)(text, name=error.name) from None
