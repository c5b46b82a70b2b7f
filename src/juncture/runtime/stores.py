"""Where files are: the names of places, and why one cannot be reached."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.fs

from juncture.errors import DataError

_BUCKETS = {"s3": "bucket", "gcs": "bucket", "abfs": "container"}
"""What the filesystems whose paths begin with the name of a store of objects call it."""

_CAUSES = {
    r"NO_SUCH_BUCKET|Bucket '[^']*' not found": "There is no such bucket. Check its name, and the region and endpoint",
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE|EXPIRED|TOKEN|HTTP status 40[13]": (
        "The credentials were refused. Check them, and that they may list and read this place"
    ),
    r"NETWORK_CONNECTION|curlCode|[Cc]ould not resolve|[Cc]onnection refused|timed out": (
        "The store cannot be reached. Check the network, the endpoint and the proxy"
    ),
}
"""What errors of object stores have in their text, and what is wrong then: Arrow has one class for all of them."""


def shown(path: str) -> str:
    """Return a path as errors name it, without the credentials that a URI may hold.

    Examples
    --------
    >>> shown("s3://key:secret@bucket/a.parquet?secret_key=x")
    's3://bucket/a.parquet'
    """
    return re.sub(r"(?<=://)[^/@]*@", "", path.partition("?")[0]) if "://" in path else path


def uri_of(path: str, filesystem: pa.fs.FileSystem) -> str:
    """Return a path as tasks and Spark find it, wherever they run."""
    if isinstance(filesystem, pa.fs.LocalFileSystem):
        return str(Path(path).absolute())
    return f"{filesystem.type_name}://{path}"


def unreadable(path: str, error: Exception) -> DataError:
    """Return the error to raise where a path cannot be listed or opened."""
    text = str(error)
    cause = next((cause for pattern, cause in _CAUSES.items() if "://" in path and re.search(pattern, text)), None)
    if cause is None:
        return DataError(f"The path {shown(path)!r} cannot be read: {text}")
    return DataError(f"The path {shown(path)!r} cannot be read. {cause}: {text}")


def check_bucket(path: str, filesystem: pa.fs.FileSystem, inner: str) -> None:
    """Refuse a path in a bucket that is not there, which Arrow takes for an empty one.

    Raises
    ------
    DataError
        If there is no such bucket.
    """
    what, bucket = _BUCKETS.get(filesystem.type_name), inner.partition("/")[0]
    if what is not None and bucket and filesystem.get_file_info(bucket).type == pa.fs.FileType.NotFound:
        raise DataError(
            f"The path {shown(path)!r} cannot be read. There is no {what} {bucket!r}. Check its name, and the region "
            "and endpoint."
        )
