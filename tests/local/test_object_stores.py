"""Paths in object stores: globs, and errors that say what is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from io import BytesIO

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError, PlanError, SpecError
from juncture.inputs.file_tables import check_tasks_read
from juncture.runtime.paths import file_at, files_of
from juncture.runtime.stores import as_arrow, infos_of, place_of, unreadable
from support.lakes import LOGS
from support.object_store import BUSY, CUT, DOWN, REFUSED, SLOW, object_store

ROWS = pa.table({"ts": [1, 2], "k": ["a", "b"]})
KEYS = ("table/a.parquet", "table/day=1/b.parquet", "table/day=2/c.parquet", "table/_tmp/d.parquet", "table/notes.txt")


def content() -> bytes:
    sink = BytesIO()
    pq.write_table(ROWS, sink)
    return sink.getvalue()


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    lakes = {f"lakes/{table}/{key}": b"" for table, log in LOGS.items() for key in (log, "day=1/part.parquet")}
    faults = {f"{fault}/a.parquet": content() for fault in (SLOW, BUSY, CUT, DOWN)}
    with object_store({"bucket": dict.fromkeys(KEYS, content()) | lakes, "faults": faults}) as options:
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


def endpoint(store: str) -> str:
    return "http://127.0.0.1:" + store.partition("127.0.0.1%3A")[2].partition("&")[0]


def joined(right: object) -> list[dict[str, object]]:
    return jn.join(ROWS, right, on="ts").sort_by("ts").select(["ts", "k_right"]).to_pylist()


EXPECTED = [{"ts": 1, "k_right": "a"}, {"ts": 2, "k_right": "b"}]


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_storage_options_say_where_a_bucket_is(store, scheme):
    options = {"access_key": "key", "AWS_SECRET_ACCESS_KEY": "secret", "endpoint_url": endpoint(store)}
    assert joined(jn.Files(f"{scheme}://bucket/table/a.parquet", storage_options=options)) == EXPECTED


def test_the_environment_says_where_a_bucket_is(store, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint(store))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert joined("s3://bucket/table/a.parquet") == EXPECTED


def test_a_file_system_of_arrow_or_fsspec(store):
    filesystem, _ = place_of(f"s3://key:secret@bucket/table{store}")
    assert joined(jn.Files("bucket/table/*.parquet", filesystem=filesystem)) == EXPECTED
    memory = fsspec.filesystem("memory")
    memory.pipe({"/here/a.parquet": content()})
    assert joined(jn.Files("/here", filesystem=memory)) == EXPECTED
    assert joined("memory://here/a.parquet") == EXPECTED


@pytest.mark.parametrize(
    ("path", "arguments", "said"),
    [
        ("s3://b/x", {"storage_options": {"endpoint": "x"}}, "The option 'endpoint' of 's3://b/x' is unknown"),
        ("s3://b/x", {"storage_options": {"anonymous": "maybe"}}, "anonymous='maybe' of 's3://b/x' is invalid"),
        ("x", {"storage_options": {"region": "x"}}, "'x' is a local path"),
        ("x", {"filesystem": "s3"}, r"filesystem='s3' \(str\) is not a file system"),
        ("x", {"filesystem": 1, "storage_options": {"region": "x"}}, "Pass one of them"),
    ],
)
def test_invalid_options(path, arguments, said):
    with pytest.raises(SpecError, match=said):
        joined(jn.Files(path, **arguments))


@pytest.mark.parametrize("fault", [SLOW, BUSY, CUT])
def test_faults_of_a_store_that_end(store, fault):
    assert joined(f"s3://key:secret@faults/{fault}/a.parquet{store}") == EXPECTED


def test_a_store_that_is_unavailable(store):
    started = time.monotonic()
    with pytest.raises(DataError, match=r"'s3://faults/down/a.parquet' cannot be read\. The store cannot be") as raised:
        joined(f"s3://key:secret@faults/{DOWN}/a.parquet{store}")
    assert raised.value.name == "JN-STORE-UNREACHABLE"
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("bucket/gone", "JN-FILE-MISSING"),
        ("nowhere/table", "JN-STORE-BUCKET"),
        (f"{REFUSED}/table", "JN-STORE-CREDENTIALS"),
    ],
)
def test_each_cause_has_its_own_error(store, path, name):
    with pytest.raises(DataError) as raised:
        joined(f"s3://key:secret@{path}{store}")
    assert raised.value.name == name


def test_a_store_without_a_server():
    with pytest.raises(DataError) as raised:
        joined("s3://key:secret@bucket/x?endpoint_override=http://127.0.0.1:1")
    assert raised.value.name == "JN-STORE-UNREACHABLE"


def test_a_store_that_never_answers():
    class Silent(fsspec.AbstractFileSystem):
        protocol = "silent"

        def info(self, _path: str, **_: object) -> None:
            time.sleep(5)

    filesystem = as_arrow(Silent())
    with pytest.raises(TimeoutError, match="timed out"):
        infos_of(filesystem, ["x"], answer_s=0.1)


def test_formats_that_tasks_do_not_read_are_named_without_secrets():
    files = jn.Files("s3://key:hidden@bucket/a.csv", storage_options={"secret_key": "hidden"})
    with pytest.raises(PlanError, match="csv files") as raised:
        check_tasks_read(files)
    assert "hidden" not in str(raised.value)
