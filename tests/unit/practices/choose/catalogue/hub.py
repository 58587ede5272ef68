"""A model hub on loopback: the addresses of Hugging Face and Kaggle, redirects to another host, ranges, and cuts."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Two names of one machine are two hosts for every client.
HUB, STORE = "127.0.0.1", "localhost"


@dataclass
class Served:
    """A file of the store, and how it is given away."""

    content: bytes
    etag: str = '"1"'
    cuts: list[int] = field(default_factory=list)
    """After so many bytes of a reply the connection breaks: one number for each of the next replies."""
    knows_ranges: bool = True
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Asked:
    """A request that came in."""

    host: str
    path: str
    headers: dict[str, str]


class Hub:
    """What the server has, and what it was asked."""

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.replies: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[Asked] = []
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its address as a hub."""
        return f"http://{HUB}:{self.port}"

    def add_file(self, path: str, content: bytes, **how: Any) -> Served:
        """Serve a file under the hub's own address."""
        self.files[path] = Served(content, **how)
        return self.files[path]

    def add_hugging_face(self, repository: str, file: str, content: bytes, *, sha256: str = "", **how: Any) -> Served:
        """Serve a file as Hugging Face does: the hub tells its checksum, and another host has it."""
        linked = sha256 or hashlib.sha256(content).hexdigest()
        stored = f"/store/{len(self.files)}"
        self.redirect(
            f"/{repository}/resolve/main/{file}",
            f"http://{STORE}:{self.port}{stored}?signature=secret",
            {"X-Linked-Etag": f'"{linked}"', "X-Linked-Size": str(len(content))},
        )
        return self.add_file(stored, content, **how)

    def add_kaggle(self, handle: str, version: int, content: bytes, **how: Any) -> Served:
        """Serve an archive as Kaggle does: the host behind it tells its checksum."""
        stored = f"/store/{len(self.files)}"
        self.replies[f"/api/v1/models/{handle}/get"] = 200, {}, json.dumps({"versionNumber": version}).encode()
        self.redirect(f"/api/v1/models/{handle}/{version}/download", f"http://{STORE}:{self.port}{stored}")
        md5 = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
        how.setdefault("headers", {"X-Goog-Hash": f"crc32c=AAAAAA==,md5={md5}"})
        return self.add_file(stored, content, **how)

    def redirect(self, path: str, to: str, headers: dict[str, str] | None = None) -> None:
        """Send those who ask for `path` elsewhere."""
        self.replies[path] = 302, {"Location": to, **(headers or {})}, b""

    def refuse(self, path: str, status: int, **headers: str) -> None:
        """Answer with an error."""
        self.replies[path] = status, {name.replace("_", "-"): value for name, value in headers.items()}, b"no"

    def asked_for(self, path: str) -> list[Asked]:
        """The requests for a path."""
        return [one for one in self.asked if one.path == path]

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that server_close waits for them

    def __init__(self, hub: Hub) -> None:
        super().__init__((HUB, 0), _Handler)
        self.hub = hub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        hub, path = self.server.hub, self.path.partition("?")[0]
        host = self.headers.get("Host", "").partition(":")[0]
        hub.asked.append(Asked(host, path, dict(self.headers.items())))
        if path in hub.replies:
            status, headers, body = hub.replies[path]
            self._head(status, {"Content-Length": str(len(body)), **headers})
            self.wfile.write(body)
        elif path in hub.files:
            self._give(hub.files[path])
        else:
            self._head(404, {"Content-Length": "0"})

    def _give(self, file: Served) -> None:
        start = self._start(file)
        if start > 0 and start >= len(file.content):
            self._head(416, {"Content-Range": f"bytes */{len(file.content)}", "Content-Length": "0"})
            return
        body = file.content[start:]
        headers = {"Content-Length": str(len(body)), "ETag": file.etag, "Accept-Ranges": "bytes", **file.headers}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(file.content) - 1}/{len(file.content)}"
        self._head(206 if start else 200, headers)
        cut = file.cuts.pop(0) if file.cuts else len(body)
        self.wfile.write(body[:cut])
        if cut < len(body):
            self.wfile.flush()
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    def _start(self, file: Served) -> int:
        """Where the range begins that was asked for, if the file is still the one that was asked for."""
        wanted = self.headers.get("Range", "")
        if not file.knows_ranges or not wanted or self.headers.get("If-Range", file.etag) != file.etag:
            return 0
        return int(wanted.removeprefix("bytes=").removesuffix("-"))

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests look at what was asked."""


@contextlib.contextmanager
def running() -> Iterator[Hub]:
    """A hub for as long as the block lasts."""
    hub = Hub()
    try:
        yield hub
    finally:
        hub.close()


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as one:
        one.bind((HUB, 0))
        return int(one.getsockname()[1])
