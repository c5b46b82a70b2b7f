"""After an error at any stage the caller retries in place, and nothing is lost or doubled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError, PlanError, StateError
from juncture.incremental.changes.source import Source
from juncture.incremental.follow import SINK, Follower
from juncture.incremental.join import ChangeJoin, ChangeSetup
from juncture.incremental.join import store_in as join_store
from juncture.incremental.state.policy import MemoryPolicy
from juncture.incremental.state.store import Store
from juncture.incremental.view import View, ViewSetup
from juncture.incremental.view import store_in as view_store
from juncture.pipeline.local_changes import MaintainedSteps
from juncture.pipeline.model import File, JoinStep
from juncture.planner.statistics import Resources
from support.faults import Failing, Faults, counted, summed

SCHEMAS = {
    "people": pa.schema({"id": pa.int64(), "name": pa.string()}),
    "sales": pa.schema({"id": pa.int64(), "book": pa.string()}),
}
SQL = "SELECT people.id, name, book FROM people LEFT JOIN sales ON people.id = sales.id"


@dataclass
class Followed:
    """People and what they bought, which are followed from folders of files.

    Attributes
    ----------
    folder
        Where the files are, the state, and what the sink is given.
    kind, sink, has_folder
        What keeps the answer, where it goes, and whether its state is in a folder.
    there
        The rows of the tables after all files that have been written.
    given
        What the function was given, by epoch.
    """

    folder: Path
    kind: str
    sink: str
    has_folder: bool
    faults: Faults = field(default_factory=Faults)
    there: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: {name: [] for name in SCHEMAS})
    given: dict[int, Counter[tuple[Any, ...]]] = field(default_factory=dict)
    files: int = 0

    def __post_init__(self) -> None:
        for name in SCHEMAS:
            (self.folder / "in" / name).mkdir(parents=True, exist_ok=True)
        self._stack = ExitStack()
        self.follower: Follower | None = None
        # Rows are written, looked up and merged on disk after some epochs.
        self.patience = 8 if "on disk" in self.kind else 1

    def open(self) -> None:
        """Follow, from the state that is in the folder, if there is one."""
        self.kept = KINDS[self.kind](self)
        self._stack.callback(self.kept.close)
        source = Failing("source", jn.change_files(self.folder / "in", SCHEMAS), self.faults)
        names = {"left": "people", "right": "sales"} if "join" in self.kind else None
        on_epoch = self.faults.stage("on_epoch", lambda _: None)
        sink: Any = Failing("sink", jn.into_files(self.folder / "out"), self.faults)
        if self.sink == "function":
            sink = self.faults.stage("sink.write", self.take)
        kept = Failing("kept", self.kept, self.faults)
        if self.kind == "pipeline of two sinks":
            sinks = {SINK: sink, "once": Failing("sink", jn.into_files(self.folder / "once"), self.faults)}
            self.follower = Follower(kept, source, sinks, dict(zip(SCHEMAS, SCHEMAS, strict=True)), 10, on_epoch, None)
        else:
            self.follower = jn.follow(kept, source, sink, tables=names, on_epoch=on_epoch)
        self._stack.callback(self.follower.close)

    def close(self) -> None:
        self._stack.close()
        self.follower = None

    def store(self, made: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return what opens the store; a checkpoint is made after every epoch."""
        if not self.has_folder:
            return None
        return lambda *given: Failing("store", made(*given), self.faults, wants_checkpoint=True)

    def take(self, epoch: int, changes: list[pa.RecordBatch]) -> None:
        """Take an epoch as a function does that goes by its number: the last one may come again."""
        rows = counted(changes)
        assert epoch == max(self.given, default=0) + 1 or self.given[epoch] == rows
        assert epoch >= max(self.given, default=0)
        self.given[epoch] = rows

    def change(self) -> None:
        """Write files: a person and two sales that come, and a person and a sale that go."""
        self.files += 1
        number = self.files
        # Rows that go to disk have to be large.
        more = "." * (5_000 if "on disk" in self.kind else 0)
        come = {
            "people": [(number, f"n{number}{more}")],
            "sales": [(number, f"b{number}{more}"), (number // 2, "again")],
        }
        for name, rows in come.items():
            gone = self.there[name].pop(0) if len(self.there[name]) > 3 else None
            self.there[name] += rows
            self.write(name, *((*row, 1) for row in rows), *([] if gone is None else [(*gone, -1)]))

    def write(self, name: str, *rows: tuple[int, str, int]) -> Path:
        """Write a file of rows and their weights."""
        path = self.folder / "in" / name / f"{self.files:06}.jsonl"
        lines = [json.dumps(dict(zip([*SCHEMAS[name].names, "_weight"], row, strict=True))) for row in rows]
        path.write_text("\n".join(lines))
        return path

    def fail(self, plan: list[tuple[str, str]]) -> list[str]:
        """Change the tables, and follow through some faults; return what happened in between."""
        self.faults.plan, events = list(plan), []
        for _ in range(self.patience):
            self.change()
            events += self.catch_up()
            if plan and not self.faults.plan:
                break
        return events

    def expected(self, *, is_once: bool = False) -> Counter[tuple[Any, ...]]:
        """Return the answer by definition."""
        found: Counter[tuple[Any, ...]] = Counter()
        for number, name in self.there["people"]:
            books = [book for buyer, book in self.there["sales"] if buyer == number] or [None]
            seconds = books if "pipeline" in self.kind and not is_once else ["-"]
            found.update(
                (number, name, book, *([] if second == "-" else [second])) for book in books for second in seconds
            )
        return found

    def written(self, folder: str = "out") -> Counter[tuple[Any, ...]]:
        """Return what the sink has been given, summed."""
        if self.sink == "function":
            epochs = list(self.given.values())
        else:
            paths = sorted((self.folder / folder).glob("*.parquet"))
            assert [int(path.stem) for path in paths] == list(range(1, len(paths) + 1))
            epochs = [counted(pq.read_table(path).to_batches()) for path in paths]
        return summed(epochs)

    def catch_up_once(self) -> None:
        """Follow until nothing is left, or the first error."""
        if self.follower is None:
            self.open()
        while self.follower.step(0) is not None:
            pass

    def catch_up(self) -> list[str]:
        """Follow until nothing is left, through the errors of the plan; return what happened in between."""
        events = []
        for _ in range(20):
            try:
                self.catch_up_once()
                return events
            except (StateError, KeyboardInterrupt) as error:
                if "on purpose" in str(error):
                    events.append("fault")
                else:
                    assert "incomplete in memory" in str(error)
                    events.append("refused")
                    self.close()
        raise AssertionError(events)


EQUI, ASOF = jn.Equi(on="id", how="left"), jn.Asof(on="id", how="left", ties="error")


def joined(followed: Followed, spec: Any = EQUI, memory_bytes: int = 1 << 26) -> ChangeJoin:
    setup = ChangeSetup(spec, *SCHEMAS.values())
    return ChangeJoin(
        setup,
        Resources(cores=1, memory_bytes=memory_bytes),
        followed.store(join_store(followed.folder / "state", setup, MemoryPolicy.of(memory_bytes))),
    )


def viewed(followed: Followed, sql: str = SQL, memory_bytes: int = 1 << 26) -> View:
    setup = ViewSetup(sql, {name: Source(schema) for name, schema in SCHEMAS.items()})
    policy = MemoryPolicy.of(memory_bytes)
    return View(setup, followed.store(view_store(followed.folder / "state", setup, policy)))


def piped(followed: Followed, spec: Any = EQUI, sinks: Sequence[str] = ()) -> MaintainedSteps:
    """Join people to sales, and what that gives to sales again."""
    steps = {
        "once": JoinStep(left="people", right="sales", spec=EQUI),
        "twice": JoinStep(left="once", right="sales", spec=spec),
    }
    schemas = dict(SCHEMAS)
    for name, step in steps.items():
        schemas[name] = jn.changes(schemas[step.left], schemas[step.right], step.spec).answer_schema
    return MaintainedSteps(
        File.model_construct(sources=dict.fromkeys(SCHEMAS), steps=steps),
        schemas,
        frozenset([*SCHEMAS, *steps]),
        {SINK: "twice", **{name: name for name in sinks}},
        lambda name: pytest.fail(f"{name} changes"),
        lambda described: followed.store(
            partial(Store, followed.folder / "state", "pipeline", MemoryPolicy.of(1 << 26), described)
        ),
    )


KINDS: dict[str, Callable[[Followed], Any]] = {
    "join": joined,
    "join on disk": lambda followed: joined(followed, memory_bytes=1 << 15),
    "view on disk": lambda followed: viewed(followed, memory_bytes=1 << 15),
    "as-of join": lambda followed: joined(followed, ASOF),
    "view": viewed,
    "view of numbers": lambda followed: viewed(followed, f"{SQL} WHERE CAST(substr(book, 2) AS INTEGER) > 0"),
    "pipeline": piped,
    "as-of pipeline": lambda followed: piped(followed, ASOF),
    "pipeline of two sinks": lambda followed: piped(followed, sinks=["once"]),
}


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[[str, str, bool], Followed]]:
    """Begin to follow, in a folder of its own each time."""
    with ExitStack() as stack:

        def begin(kind: str, sink: str, has_folder: bool) -> Followed:
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            followed = Followed(folder, kind, sink, has_folder)
            stack.callback(followed.close)
            return followed

        yield begin


PLACES = [("join", False), ("join", True), ("view", False), ("view", True), ("pipeline", True)]


@pytest.mark.parametrize(("kind", "has_folder"), PLACES)
@pytest.mark.parametrize("sink", ["files", "function"])
def test_retries_in_place_at_every_stage(follow, kind, has_folder, sink):
    stages = stages_of(follow(kind, sink, has_folder))
    assert {"source.next", "kept.apply", "sink.write", "kept.last", "on_epoch"} <= set(stages)
    assert ("store.commit" in stages and bool({"store.checkpoint", "store.replace"} & set(stages))) == has_folder
    check_retries(stages, partial(follow, kind, sink, has_folder))


@pytest.mark.parametrize("kind", ["join on disk", "view on disk"])
def test_retries_in_place_with_rows_on_disk(follow, kind):
    stages = [stage for stage in stages_of(follow(kind, "function", True)) if stage.startswith("store.")]
    assert {"store.blocks", "store.states", "store.writer", "store.take_in"} <= set(stages)
    check_retries(stages, partial(follow, kind, "function", True))


def check_retries(stages: list[str], follow: Callable[[], Followed]) -> None:
    """Have each stage fail, in an epoch of its own and while the sink is given the epoch before again."""
    followed, failed = follow(), set()
    faults = list(product(stages, ("before", "after")))
    for fault in faults:
        for plan in ([fault], [("sink.write", "before"), fault]):
            events = followed.fail(plan)
            if followed.faults.plan:
                # What is called at first only.
                followed = follow()
                events = followed.fail(plan)
            failed |= set() if followed.faults.plan else {fault}
            # Of an interrupt nothing tells whether the folder has the epoch.
            assert "refused" not in events or (fault[0].startswith("store.") and fault[1] == "after"), (plan, events)
            assert followed.written() == followed.expected(), (plan, events)
    assert failed == set(faults)


def stages_of(followed: Followed) -> list[str]:
    """Return the stages of following without an error, and after one."""
    followed.fail([])
    followed.fail([("sink.write", "before")])
    return list(dict.fromkeys(followed.faults.reached))


BAD = {
    "join": (99, "none", -1),
    "as-of join": (1, "b2", 1),
    "view": (99, "none", -1),
    "view of numbers": (1, "no number", 1),
    "pipeline": (99, "none", -1),
    "as-of pipeline": (1, "b2", 1),
}
"""Changes of sales that are refused: before the first operator, or by one after others have taken what it is given."""


@pytest.mark.parametrize(
    ("kind", "has_folder"), [(kind, has) for kind in BAD for has in (True, False) if has or "pipeline" not in kind]
)
def test_changes_that_cannot_be_taken_are_not_skipped(follow, kind, has_folder):
    followed, plain = (follow(kind, "files", has_folder) for _ in range(2))
    for each in (followed, plain):
        each.write("people", (1, "Adam", 1))
        each.write("sales", (1, "b1", 1))
        each.catch_up()
        each.files += 1
        each.write("people", (2, "Eve", 1), (1, "Adam", -1), (1, "Ada", 1))
    path = followed.write("sales", (2, "b3", 1), BAD[kind])
    for _ in range(3):
        with pytest.raises(DataError):
            followed.follower.step(0)
    path.unlink()
    for each in (followed, plain):
        each.write("sales", (2, "b3", 1))
        each.catch_up()
    assert followed.written() == plain.written()
    assert len(followed.written()) == 2


@pytest.mark.parametrize(("kind", "has_folder"), PLACES)
def test_a_closed_follower(follow, kind, has_folder):
    followed = follow(kind, "files", has_folder)
    followed.fail([])
    followed.follower.close()
    with pytest.raises(PlanError, match="The follower is closed"):
        followed.follower.step(0)
