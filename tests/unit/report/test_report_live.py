"""The page that follows a session while it grows."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tune_session import tune_lines, write

from hasten.core.errors import TargetError
from hasten.report.live import serve

if TYPE_CHECKING:
    from pathlib import Path


def ask(url: str, path: str, host: str = "") -> tuple[int, str]:
    link = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    link.request("GET", path, headers={"Host": host} if host else {})
    answer = link.getresponse()
    text = answer.read().decode()
    link.close()
    return answer.status, text


def test_the_page_is_there_before_the_session_and_follows_it(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    with serve(path) as server:
        status, page = ask(server.url, "/")
        assert status == 200
        assert "This session holds nothing yet." in page
        assert 'data-live="none"' in page
        assert "connect-src &#x27;self&#x27;" in page
        lines = tune_lines(12)
        write(path, lines[:8])
        status, news = ask(server.url, "/content?since=none")
        assert status == 200
        first = json.loads(news)
        assert "No verdict yet: 6 trials so far" in first["body"]
        assert ask(server.url, f"/content?since={first['signature']}") == (204, "")
        write(path, lines)
        later = json.loads(ask(server.url, f"/content?since={first['signature']}")[1])
        assert "times faster, 95 % interval" in later["body"]
        assert "front" in later["charts"]


def test_only_its_own_address_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    write(path, tune_lines(2))
    with serve(path) as server:
        port = urlsplit(server.url).port
        assert ask(server.url, "/content", host=f"evil.example:{port}")[0] == 403
        assert ask(server.url, "/content", host=f"localhost:{port}")[0] == 200
        assert ask(server.url, "/../../etc/passwd")[0] == 404
    with pytest.raises(ConnectionError):
        ask(server.url, "/")


def test_a_file_that_is_no_session_is_an_empty_page(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text("not a session")
    with serve(path) as server:
        assert "This session holds nothing yet." in ask(server.url, "/content")[1]


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with serve(tmp_path / "a.jsonl") as server:
        second = serve(tmp_path / "b.jsonl", port=urlsplit(server.url).port or 0)
        with pytest.raises(TargetError, match="cannot be used"):
            second.__enter__()
