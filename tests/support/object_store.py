"""A small object store that speaks as much of S3 as reading needs, so that errors are those of Arrow's own client."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

REFUSED = "refused"
"""A bucket that exists, and that these credentials may not read."""

SLOW, BUSY, CUT, DOWN = "slow", "busy", "cut", "down"
"""Beginnings of keys whose first answers come late, are 503, or end before their content does; and of those that always
are 503."""


class _Handler(BaseHTTPRequestHandler):
    buckets: Mapping[str, Mapping[str, bytes]]
    counts: Counter[str]
    is_cut = False
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(is_head=True)

    def do_GET(self) -> None:
        self._answer(is_head=False)

    def log_message(self, *_: object) -> None:
        """Write nothing to standard error."""

    def _answer(self, *, is_head: bool) -> None:
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        fault = next((each for each in (SLOW, BUSY, CUT, DOWN) if key.startswith(each)), None)
        self.counts[url.path] += 1
        if fault == SLOW:
            time.sleep(0.2)
        if fault == DOWN or (fault == BUSY and self.counts[url.path] <= 2):
            self._send(503, _error("SlowDown", "Please reduce your request rate."), is_head=is_head)
            return
        self.is_cut = fault == CUT and not is_head and self.counts[url.path] <= 4
        if bucket == REFUSED:
            self._send(403, _error("AccessDenied", "Access Denied"), is_head=is_head)
        elif bucket not in self.buckets:
            self._send(404, _error("NoSuchBucket", "The specified bucket does not exist"), is_head=is_head)
        elif not key:
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            self._send(200, b"" if is_head else _listing(self.buckets[bucket], query), is_head=is_head)
        elif key in self.buckets[bucket]:
            self._send_object(self.buckets[bucket][key], is_head=is_head)
        else:
            self._send(404, _error("NoSuchKey", "The specified key does not exist."), is_head=is_head)

    def _send_object(self, content: bytes, *, is_head: bool) -> None:
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(200, content, is_head=is_head)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        self._send(206, content[int(first) : int(last) + 1], is_head=is_head)

    def _send(self, status: int, body: bytes, *, is_head: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("ETag", '"0"')
        self.end_headers()
        if not is_head:
            self.wfile.write(body[: len(body) // 2] if self.is_cut else body)
        self.close_connection |= self.is_cut


def _error(code: str, message: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


def _listing(objects: Mapping[str, bytes], query: Mapping[str, str]) -> bytes:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
    contents, folders = [], dict[str, None]()
    for key in sorted(key for key in objects if key.startswith(prefix)):
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        if found:
            folders[prefix + head + found] = None
        else:
            contents.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f"<Size>{len(objects[key])}</Size></Contents>"
            )
    common = [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders]
    return (
        f"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>{len(contents) + len(common)}</KeyCount>"
        f"{''.join(contents)}{''.join(common)}</ListBucketResult>"
    ).encode()


@contextmanager
def object_store(buckets: Mapping[str, Mapping[str, bytes]]) -> Iterator[str]:
    """Serve buckets of objects while the block lasts.

    Yields
    ------
    str
        What a URI has to say after its path, for Arrow to look for its bucket here.
    """
    handler = type("Handler", (_Handler,), {"buckets": buckets, "counts": Counter[str]()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield options(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


def options(port: int) -> str:
    """Return what a URI says after its path for Arrow to look for its bucket at a port of this machine."""
    return f"?scheme=http&endpoint_override=127.0.0.1%3A{port}&region=us-east-1&allow_bucket_creation=false"
