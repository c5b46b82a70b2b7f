"""Local and remote file stores: URIs, and causes of failed access."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.fs

from juncture.errors import DataError

_BUCKETS = {"s3": "bucket", "gcs": "bucket", "abfs": "container"}
"""The name of the first path component, by filesystem of an object store."""

_CAUSES = {
    r"NO_SUCH_BUCKET|Bucket '[^']*' not found": "The bucket does not exist. Check its name, region and endpoint",
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE|EXPIRED|TOKEN|HTTP status 40[13]": (
        "The credentials were refused. Check them, and their permission to list and read this path"
    ),
    r"NETWORK_CONNECTION|curlCode|[Cc]ould not resolve|[Cc]onnection refused|timed out": (
        "The store cannot be reached. Check the network, the endpoint and the proxy"
    ),
}
"""Causes by the error text of object stores, because Arrow has one exception class for all of them."""


def shown(path: str) -> str:
    """Return a path for messages, without credentials of a URI.

    Examples
    --------
    >>> shown("s3://key:secret@bucket/a.parquet?secret_key=x")
    's3://bucket/a.parquet'
    """
    return re.sub(r"(?<=://)[^/@]*@", "", path.partition("?")[0]) if "://" in path else path


def uri_of(path: str, filesystem: pa.fs.FileSystem) -> str:
    """Return a path or URI that is valid in all tasks and in Spark."""
    if isinstance(filesystem, pa.fs.LocalFileSystem):
        return str(Path(path).absolute())
    return f"{filesystem.type_name}://{path}"


def unreadable(path: str, error: Exception) -> DataError:
    """Return the error for a path that cannot be listed or opened."""
    text = str(error)
    cause = next((cause for pattern, cause in _CAUSES.items() if "://" in path and re.search(pattern, text)), None)
    if cause is None:
        return DataError(f"The path {shown(path)!r} cannot be read: {text}", name="JN-FILE-ACCESS")
    return DataError(f"The path {shown(path)!r} cannot be read. {cause}: {text}", name="JN-FILE-ACCESS")


def check_bucket(path: str, filesystem: pa.fs.FileSystem, inner: str) -> None:
    """Refuse a path in a missing bucket, which Arrow treats as an empty one."""
    what, bucket = _BUCKETS.get(filesystem.type_name), inner.partition("/")[0]
    if what is not None and bucket and filesystem.get_file_info(bucket).type == pa.fs.FileType.NotFound:
        raise DataError(
            f"The path {shown(path)!r} cannot be read, because the {what} {bucket!r} does not exist. Check its name, "
            "region and endpoint.",
            name="JN-FILE-MISSING",
        )
