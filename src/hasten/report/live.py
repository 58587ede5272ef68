"""The report while its session grows: a small server on this machine only, and a page that asks it for news.

It answers nobody who names it otherwise than by its own address, so that no page of another site can read it.
"""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from hasten.core.errors import TargetError
from hasten.core.session import UNREADABLE, Session, read_session
from hasten.report.page import content, whole_page
from hasten.report.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hasten.report.summary import Summary

HOST: Final = "127.0.0.1"


@dataclass(slots=True)
class LiveReport:
    """A session file as it is now; it is read again only when it has changed."""

    path: Path
    _signature: str = ""
    _summary: Summary | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> tuple[str, Summary]:
        """The file's signature and its summary; a file that is not there yet is an empty session."""
        with self._lock:
            signature = self._read_signature()
            if self._summary is None or signature != self._signature:
                self._signature, self._summary = signature, self._summarized()
            return self._signature, self._summary

    def _read_signature(self) -> str:
        try:
            found = self.path.stat()
        except OSError:
            return "none"
        return f"{found.st_size}-{found.st_mtime_ns}"

    def _summarized(self) -> Summary:
        """What cannot be read is shown as an empty session: the file may be whole at the next look."""
        try:
            return summarize(read_session(self.path), str(self.path))
        except UNREADABLE:
            return summarize(Session({}, ()), str(self.path))


@dataclass(frozen=True, slots=True)
class Serving:
    """A server at work."""

    url: str


@contextlib.contextmanager
def serve(session_path: Path, port: int = 0) -> Iterator[Serving]:
    """Serve the report of a session file for as long as the `with` lasts; port 0 takes a free one."""
    report = LiveReport(session_path)
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(report))
    except (OSError, OverflowError) as error:
        raise TargetError(f"Port {port} cannot be used: {error}.", "Choose another one, or 0 for any.") from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield Serving(f"http://{HOST}:{server.server_port}/")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(report: LiveReport) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Two answers: the page, and what has changed since the state that the page has."""

        def do_GET(self) -> None:
            """Answer."""
            asked = urlsplit(self.path)
            if self.headers.get("Host") not in self._own_names():
                self._answer(403, "text/plain", "Only this machine may open this page, at its own address.")
            elif asked.path == "/":
                signature, summary = report.now()
                self._answer(200, "text/html", whole_page(summary, signature))
            elif asked.path == "/content":
                self._news(parse_qs(asked.query).get("since", [""])[0])
            else:
                self._answer(404, "text/plain", "There is nothing here.")

        def _own_names(self) -> tuple[str, str]:
            port = self.connection.getsockname()[1]
            return f"{HOST}:{port}", f"localhost:{port}"

        def _news(self, since: str) -> None:
            signature, summary = report.now()
            if signature == since:
                self._answer(204, "application/json", "")
                return
            body, charts = content(summary)
            self._answer(200, "application/json", json.dumps({"signature": signature, "body": body, "charts": charts}))

        def _answer(self, status: int, kind: str, text: str) -> None:
            raw = text.encode()
            # Ignore clients that disconnected.
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(raw)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.end_headers()
                self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            """Say nothing: standard error belongs to the command."""

    return Handler
