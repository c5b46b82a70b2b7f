"""File systems of paths and URIs: object stores with their options, and one named error for each cause of failure.

Options are those after ``?`` in a URI, then the usual environment variables. A store that does not answer is reported
within `ANSWER_S`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import pyarrow as pa
import pyarrow.fs

from juncture.errors import DataError, SpecError

ANSWER_S = 25.0
"""How long a store may take to answer whether a path exists."""

_RETRY_S = 10  # how long Google's client repeats a request
_CONNECT_S = 5.0
_ATTEMPTS = 5

_BUCKETS = {"s3": "bucket", "gcs": "bucket", "abfs": "container"}
"""The name of the first path component, by filesystem of an object store."""


@dataclass(frozen=True)
class _Cause:
    """A cause of failure: the pattern of its error text, the name of the error, and what to do."""

    pattern: str
    name: str
    remedy: str


_CAUSES = (
    _Cause(
        r"NO_SUCH_BUCKET|NoSuchBucket|Bucket '[^']*' not found|ContainerNotFound",
        "JN-STORE-BUCKET",
        "The bucket does not exist. Check its name, region and endpoint",
    ),
    _Cause(
        r"ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE|EXPIRED|TOKEN|HTTP status 40[13]"
        r"|AuthenticationException|PERMISSION_DENIED|UNAUTHENTICATED|AuthorizationFailure",
        "JN-STORE-CREDENTIALS",
        "The credentials were refused. Check them, and their permission to list and read this path",
    ),
    _Cause(
        r"NETWORK_CONNECTION|curlCode|[Cc]ould not resolve|[Cc]onnection refused|[Cc]ouldn't connect|timed out"
        r"|SLOW_DOWN|UNAVAILABLE|[Uu]navailable|INTERNAL_FAILURE|REQUEST_TIMEOUT|HTTP status 5\d\d",
        "JN-STORE-UNREACHABLE",
        "The store cannot be reached. Check the network, the endpoint and the proxy",
    ),
)
"""Causes by the error text of object stores, because Arrow has one exception class for all of them."""


def path_text(path: str) -> str:
    """Return a path for messages, without credentials of a URI."""
    return re.sub(r"(?<=://)[^/@]*:[^/@]*@", "", path.partition("?")[0]) if "://" in path else path


def uri_of(path: str, filesystem: pa.fs.FileSystem) -> str:
    """Return a path or URI that names a file in messages and in Spark."""
    if isinstance(filesystem, pa.fs.LocalFileSystem):
        return str(Path(path).absolute())
    scheme = "gs" if filesystem.type_name == "gcs" else filesystem.type_name
    return f"{scheme}://{path}"


def spark_uri_of(path: str, filesystem: pa.fs.FileSystem) -> str:
    """Return a path or URI that Spark's own readers open."""
    uri = uri_of(path, filesystem)
    return f"s3a{uri[2:]}" if uri.startswith("s3://") else uri


def unreadable(path: str, error: Exception) -> DataError:
    """Return the error for a path that cannot be listed or opened."""
    return store_failure(path, error) or DataError(
        f"The path {path_text(path)!r} cannot be read: {error}", name="JN-FILE-ACCESS"
    )


def store_failure(path: str, error: Exception) -> DataError | None:
    """Return the error for a failure of an object store with a known cause, else None."""
    text = str(error)
    cause = next((cause for cause in _CAUSES if "://" in path and re.search(cause.pattern, text)), None)
    if cause is None:
        return None
    return DataError(f"The path {path_text(path)!r} cannot be read. {cause.remedy}: {text}", name=cause.name)


def check_bucket(path: str, filesystem: pa.fs.FileSystem, inner: str) -> None:
    """Refuse a path in a missing bucket, which Arrow treats as an empty one."""
    what, bucket = _BUCKETS.get(filesystem.type_name), inner.partition("/")[0]
    if what is not None and bucket and infos_of(filesystem, [bucket])[0].type == pa.fs.FileType.NotFound:
        raise DataError(
            f"The path {path_text(path)!r} cannot be read, because the {what} {bucket!r} does not exist. Check its "
            "name, region and endpoint.",
            name="JN-STORE-BUCKET",
        )


def infos_of(filesystem: pa.fs.FileSystem, paths: Sequence[str], answer_s: float = ANSWER_S) -> list[pa.fs.FileInfo]:
    """Return what is at paths. Raise `TimeoutError` if a store does not answer, because some clients retry for long."""
    if isinstance(filesystem, pa.fs.LocalFileSystem):
        infos: list[pa.fs.FileInfo] = filesystem.get_file_info(paths)
        return infos
    answers = list[list[pa.fs.FileInfo] | BaseException]()

    def ask() -> None:
        try:
            answers.append(filesystem.get_file_info(paths))
        except BaseException as error:
            answers.append(error)

    # A daemon: a request that never ends does not prevent the process from ending.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(answer_s)
    if not answers:
        raise TimeoutError(f"timed out after {answer_s:g} s without an answer")
    answer = answers[0]
    if isinstance(answer, BaseException):
        raise answer
    return answer


def with_options(path: str, options: Mapping[str, str]) -> str:
    """Return a URI with more options after its ``?``."""
    if not options:
        return path
    if "://" not in path:
        raise SpecError(
            f"storage_options={sorted(options)} apply to object stores, but {path!r} is a local path. Remove them, or "
            "pass a URI such as 's3://bucket/key'.",
            name="JN-ARGUMENT-CONFLICT",
        )
    return f"{path}{'&' if '?' in path else '?'}{urlencode(options)}"


def place_of(path: str, filesystem: pa.fs.FileSystem | None = None) -> tuple[pa.fs.FileSystem, str]:
    """Return the filesystem of a path or URI, unless it is chosen, and the path within it."""
    if filesystem is not None:
        # Of a URI, the file system already has the scheme and the options.
        return filesystem, path.partition("://")[2].partition("?")[0] if "://" in path else path
    scheme, has_scheme, rest = path.partition("://")
    if not has_scheme:
        return pa.fs.LocalFileSystem(), str(Path(path).expanduser())
    inner, _, query = rest.partition("?")
    if scheme in _S3_SCHEMES:
        retries = pa.fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS)
        arguments = _s3_arguments(path)
        inner = _unescaped(_without_user(inner)[1])
        if "region" not in arguments:
            arguments["region"] = pa.fs.resolve_s3_region(inner.partition("/")[0])
        return pa.fs.S3FileSystem(retry_strategy=retries, connect_timeout=_CONNECT_S, **arguments), inner
    if scheme in ("gs", "gcs"):
        user, inner = _without_user(inner)
        options = dict(parse_qsl(query, keep_blank_values=True))
        return _gcs(path, options, is_anonymous=user == "anonymous"), _unescaped(inner)
    if scheme in ("abfs", "abfss") and not query and (azure := _azure(inner)) is not None:
        return azure
    return _other(path, scheme)


def _without_user(inner: str) -> tuple[str, str]:
    """Return the user of a URI, or an empty text, and the rest of its path."""
    bucket, slash, key = inner.partition("/")
    user, _, bucket = bucket.rpartition("@")
    return user, f"{bucket}{slash}{key}"


def _unescaped(inner: str) -> str:
    return unquote(inner).rstrip("/")


def _other(path: str, scheme: str) -> tuple[pa.fs.FileSystem, str]:
    """Return the file system of a URI by Arrow, or by fsspec if Arrow does not support the scheme."""
    try:
        # Brackets are invalid in a URI, but are glob characters.
        filesystem, inner = pa.fs.FileSystem.from_uri(path.replace("[", "%5B").replace("]", "%5D"))
        return filesystem, inner
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem type" not in str(error):
            raise
        try:
            import fsspec
            from fsspec.core import url_to_fs
        except ImportError:
            raise unreadable(path, error) from error
        if scheme not in fsspec.available_protocols():
            raise unreadable(path, error) from error
        try:
            filesystem, inner = url_to_fs(path)
        except (ImportError, ValueError) as failure:
            raise unreadable(path, failure) from failure
        return pa.fs.PyFileSystem(pa.fs.FSSpecHandler(filesystem)), inner


_ALIASES = {
    "aws_access_key_id": "access_key",
    "key": "access_key",
    "aws_secret_access_key": "secret_key",
    "secret": "secret_key",
    "aws_session_token": "session_token",
    "token": "session_token",
    "aws_region": "region",
    "aws_default_region": "region",
    "aws_endpoint_url": "endpoint_override",
    "aws_endpoint_url_s3": "endpoint_override",
    "endpoint_url": "endpoint_override",
    "anon": "anonymous",
}
"""Names of options in other libraries and in the environment."""

_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_S3_SCHEMES = ("s3", "s3a", "s3n")
_S3_TEXTS = frozenset(
    ("access_key", "secret_key", "session_token", "region", "scheme", "endpoint_override", "role_arn", "session_name")
) | {"external_id", "tls_ca_file_path", "proxy_options"}
_S3_NUMBERS = frozenset(("connect_timeout", "request_timeout"))
_S3_FLAGS = frozenset(("anonymous", "allow_bucket_creation", "allow_bucket_deletion", "allow_delayed_open")) | {
    "background_writes",
    "check_directory_existence_before_creation",
    "force_virtual_addressing",
}


def _s3_arguments(path: str) -> dict[str, Any]:
    """Return the arguments of the file system of a URI, by its options and the environment."""
    inner, _, query = path.partition("://")[2].partition("?")
    arguments: dict[str, Any] = {}
    user, _ = _without_user(inner)
    if user:
        key, _, secret = user.partition(":")
        arguments |= {"access_key": unquote(key), "secret_key": unquote(secret)}
    options = dict(parse_qsl(query, keep_blank_values=True))
    arguments |= _typed(path, options, texts=_S3_TEXTS, numbers=_S3_NUMBERS, flags=_S3_FLAGS)
    # Read here, so that Spark's tasks use the same store.
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint:
        arguments.setdefault("endpoint_override", endpoint)
    if region or "endpoint_override" in arguments:
        arguments.setdefault("region", region or "us-east-1")
    return arguments


def delta_store(path: str) -> tuple[str, dict[str, str]]:
    """Return the URI of a table without options, and these options as those of deltalake."""
    if path.partition("://")[0] not in _S3_SCHEMES or "://" not in path:
        return path, {}
    arguments, options = _s3_arguments(path), dict[str, str]()
    for name, option in _DELTA_OPTIONS.items():
        if name in arguments:
            options[option] = str(arguments[name])
    endpoint = _endpoint(arguments)
    if endpoint:
        options |= {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
    # Without answers, deltalake would retry for three minutes.
    options |= {"timeout": f"{ANSWER_S:g}s", "connect_timeout": f"{_CONNECT_S:g}s", "retry_timeout": f"{_RETRY_S}s"}
    return _bare_s3(path), options


def iceberg_store(path: str) -> tuple[str, dict[str, str]]:
    """Return the URI of a table without options, and these options as those of pyiceberg."""
    if path.partition("://")[0] not in _S3_SCHEMES or "://" not in path:
        return path, {}
    arguments = _s3_arguments(path)
    options = {option: str(arguments[name]) for name, option in _ICEBERG_OPTIONS.items() if name in arguments}
    endpoint = _endpoint(arguments)
    return _bare_s3(path), options | ({"s3.endpoint": endpoint} if endpoint else {})


_DELTA_OPTIONS = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
}
_ICEBERG_OPTIONS = {
    "access_key": "s3.access-key-id",
    "secret_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "region": "s3.region",
}


def _endpoint(arguments: Mapping[str, Any]) -> str | None:
    endpoint: str | None = arguments.get("endpoint_override")
    return endpoint if endpoint is None or "://" in endpoint else f"{arguments.get('scheme', 'https')}://{endpoint}"


def _bare_s3(path: str) -> str:
    return f"s3://{_without_user(path.partition('://')[2].partition('?')[0])[1]}"


_GCS_TEXTS = frozenset(("access_token", "target_service_account", "scheme", "endpoint_override", "project_id"))


def _gcs(path: str, options: Mapping[str, str], *, is_anonymous: bool) -> pa.fs.FileSystem:
    arguments = {"anonymous": is_anonymous} | _typed(
        path, options, texts=_GCS_TEXTS, numbers=frozenset(("retry_limit_seconds",)), flags=frozenset(("anonymous",))
    )
    limit = timedelta(seconds=arguments.pop("retry_limit_seconds", _RETRY_S))
    return pa.fs.GcsFileSystem(retry_time_limit=limit, **arguments)


def _azure(inner: str) -> tuple[pa.fs.FileSystem, str] | None:
    """Return the file system of ``container@account/path`` with a key or token of the environment; None without."""
    container, has_account, rest = inner.partition("@")
    key = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY") or os.environ.get("AZURE_STORAGE_KEY")
    token = os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    if not has_account or not (key or token):
        return None
    host, _, path = rest.partition("/")
    access = {"account_key": key} if key else {"sas_token": token}
    filesystem = pa.fs.AzureFileSystem(host.partition(".")[0], **access)
    return filesystem, f"{container}/{_unescaped(path)}".rstrip("/")


def _typed(
    path: str, options: Mapping[str, str], *, texts: frozenset[str], numbers: frozenset[str], flags: frozenset[str]
) -> dict[str, Any]:
    """Return the options of a URI as arguments of its file system."""
    arguments = dict[str, Any]()
    for option, value in options.items():
        name = _ALIASES.get(option.lower(), option.lower())
        if name not in texts | numbers | flags:
            raise SpecError(
                f"The option {option!r} of {path_text(path)!r} is unknown. Expected one of "
                f"{', '.join(sorted(texts | numbers | flags))}. Correct or remove it.",
                name="JN-ARGUMENT-VALUE",
            )
        try:
            arguments[name] = value if name in texts else float(value) if name in numbers else _FLAGS[value.lower()]
        except (KeyError, ValueError) as error:
            raise SpecError(
                f"The option {option}={value!r} of {path_text(path)!r} is invalid. Expected "
                f"{'a number' if name in numbers else 'true or false'}. Correct or remove it.",
                name="JN-ARGUMENT-VALUE",
            ) from error
    return arguments


def as_arrow(filesystem: object) -> pa.fs.FileSystem:
    """Return a file system of fsspec as one of Arrow."""
    if isinstance(filesystem, pa.fs.FileSystem):
        return filesystem
    try:
        from fsspec import AbstractFileSystem
    except ImportError:
        AbstractFileSystem = None  # noqa: N806 - the name of the class
    if AbstractFileSystem is None or not isinstance(filesystem, AbstractFileSystem):
        raise SpecError(
            f"filesystem={filesystem!r} ({type(filesystem).__name__}) is not a file system. Expected one of "
            "pyarrow.fs or fsspec.",
            name="JN-ARGUMENT-TYPE",
        )
    return pa.fs.PyFileSystem(pa.fs.FSSpecHandler(filesystem))
