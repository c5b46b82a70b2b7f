"""Paths in object stores: globs, and errors that say what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError
from juncture.runtime.paths import file_at, files_of, unreadable
from support.lakes import LOGS
from support.object_store import REFUSED, object_store

ROWS = pa.table({"ts": [1, 2], "k": ["a", "b"]})
KEYS = ("table/a.parquet", "table/day=1/b.parquet", "table/day=2/c.parquet", "table/_tmp/d.parquet", "table/notes.txt")


def content() -> bytes:
    sink = BytesIO()
    pq.write_table(ROWS, sink)
    return sink.getvalue()


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    lakes = {f"lakes/{table}/{key}": b"" for table, log in LOGS.items() for key in (log, "day=1/part.parquet")}
    with object_store({"bucket": dict.fromkeys(KEYS, content()) | lakes}) as options:
        yield options


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("table", KEYS[:3]),
        ("table/", KEYS[:3]),
        ("table/*.parquet", KEYS[:1]),
        ("*/a.parquet", KEYS[:1]),
        ("table/day=[12]/*", KEYS[1:3]),
        ("table/*", KEYS[:3] + KEYS[4:]),
        ("ta*/**/*.parquet", KEYS[:3]),
    ],
)
def test_a_path_in_a_bucket(store, path, expected):
    found = files_of(f"s3://key:secret@bucket/{path}{store}")
    assert [file.path for file in found] == [f"bucket/{key}" for key in expected]


def test_a_join_of_files_in_a_bucket(store):
    table = f"s3://key:secret@bucket/table/day=*/*.parquet{store}"
    rows = jn.join(ROWS, table, on="ts").sort_by([("day", "ascending"), ("ts", "ascending")])
    assert rows.select(["ts", "k_right", "day"]).to_pylist() == [
        {"ts": ts, "k_right": key, "day": day} for day in (1, 2) for ts, key in ((1, "a"), (2, "b"))
    ]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("bucket/gone", r"does not exist\. Expected a Parquet file"),
        ("bucket/gone/*.parquet", "is a glob without matches"),
        ("bucket/table/_tmp/x/*", "is a glob without matches"),
        ("nowhere/table", r"cannot be read, because the bucket 'nowhere' does not exist\. Check its name"),
        ("nowhere/table/*.parquet", r"cannot be read, because the bucket 'nowhere' does not exist\. Check its name"),
        (f"{REFUSED}/table", r"cannot be read\. The credentials were refused\. Check them"),
        (f"{REFUSED}/*.parquet", r"cannot be read\. The credentials were refused\. Check them"),
    ],
)
def test_a_path_that_leads_nowhere_says_why(store, path, said):
    with pytest.raises(DataError, match=said) as raised:
        files_of(f"s3://key:secret@{path}{store}")
    # What a URI holds of credentials is in no message.
    assert f"The path 's3://{path}'" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_file_that_credentials_are_refused_for(store):
    with pytest.raises(DataError, match="The credentials were refused"):
        file_at(f"s3://key:secret@{REFUSED}/a.parquet{store}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("When resolving region for bucket 'b': AWS Error NETWORK_CONNECTION during HeadBucket", "cannot be reached"),
        ("curlCode: 28, Timeout was reached", "cannot be reached"),
        ("Bucket 'b' not found", "The bucket does not exist"),
        ("AWS Error INVALID_ACCESS_KEY_ID during ListObjectsV2 operation", "credentials were refused"),
        ("Operation failed with HTTP status 403", "credentials were refused"),
        ("Something else", r"cannot be read: Something else"),
    ],
)
def test_what_arrow_says_of_a_store_is_told_apart(text, said):
    with pytest.raises(DataError, match=said):
        raise unreadable("s3://b/x", OSError(text))
    # A file of this machine may have such a name.
    assert unreadable("b/x", OSError(text)).message == f"The path 'b/x' cannot be read: {text}"


@pytest.mark.parametrize("table", LOGS)
def test_a_table_with_a_log_is_refused(store, table):
    for path in (f"lakes/{table}", "lakes", f"lakes/{table}/day=1/part.parquet", "lakes/*", f"*/{table}/day=*/*"):
        with pytest.raises(DataError, match=r"'s3://bucket/lakes/\w+' is an? .* table"):
            files_of(f"s3://key:secret@bucket/{path}{store}")
