"""Downloads against a real server on loopback: whatever the connection does, the file is the right one or none."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
from http.client import HTTPMessage
from typing import TYPE_CHECKING
from urllib.request import Request

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.core.errors import ModelError
from hasten.practices.choose.catalogue import download as downloads
from hasten.practices.choose.catalogue.download import Address, download
from tests.unit.practices.choose.catalogue.hub import HUB, STORE, closed_port, running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.practices.choose.catalogue.hub import Hub

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = "/file"


def fetched(hub: Hub, path: Path, *, sha256: str = "", advice: str = "") -> bytes:
    download(Address(f"{hub.url}{FILE}", sha256, advice=advice), path)
    assert [one.name for one in path.parent.iterdir()] == [path.name], "nothing is left beside it"
    return path.read_bytes()


def trouble(address: Address, path: Path) -> str:
    """The code of what went wrong; empty if nothing did."""
    try:
        download(address, path)
    except ModelError as error:
        return error.code
    return ""


def ranges(hub: Hub, path: str = FILE) -> list[str]:
    return [one.headers.get("Range", "") for one in hub.asked_for(path)]


def test_a_file_arrives(hub: Hub, tmp_path: Path) -> None:
    hub.add_file(FILE, CONTENT)
    told: list[tuple[float, str]] = []
    download(Address(f"{hub.url}{FILE}", SHA256), tmp_path / "file", lambda share, text: told.append((share, text)))
    assert (tmp_path / "file").read_bytes() == CONTENT
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert f"from {HUB}" in told[-1][1]


def test_a_connection_that_breaks_is_opened_again_for_the_rest(hub: Hub, tmp_path: Path) -> None:
    hub.add_file(FILE, CONTENT, cuts=[300_000, 1, 200_000])
    assert fetched(hub, tmp_path / "new" / "file") == CONTENT
    assert ranges(hub) == ["", "bytes=300000-", "bytes=300001-", "bytes=500001-"]


def test_a_download_that_gave_up_continues_the_next_time(hub: Hub, tmp_path: Path) -> None:
    file = hub.add_file(FILE, CONTENT, cuts=[700_000, 0, 0, 0])
    path = tmp_path / "new" / "file"
    with pytest.raises(ModelError) as caught:
        fetched(hub, path)
    assert caught.value.code == downloads.CUT
    assert not path.exists()
    assert file.cuts == []
    hub.asked.clear()
    assert fetched(hub, path) == CONTENT
    assert ranges(hub) == ["bytes=700000-"]


def test_an_interrupted_download_continues_the_next_time(hub: Hub, tmp_path: Path) -> None:
    hub.add_file(FILE, CONTENT)
    path = tmp_path / "new" / "file"

    def interrupt(share: float, text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(Address(f"{hub.url}{FILE}"), path, interrupt)
    assert fetched(hub, path) == CONTENT
    assert ranges(hub)[1].startswith("bytes=")


@pytest.mark.parametrize("known", ["", SHA256])
def test_a_file_that_changed_meanwhile_is_fetched_anew(hub: Hub, tmp_path: Path, known: str) -> None:
    file = hub.add_file(FILE, b"x" * 900_000, cuts=[500_000, 0, 0, 0], etag='"old"')
    path = tmp_path / "new" / "file"
    with pytest.raises(ModelError):
        fetched(hub, path, sha256=known)
    file.content, file.etag = CONTENT, '"new"'
    assert fetched(hub, path, sha256=known) == CONTENT


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
def test_halves_of_which_nobody_knows_whether_they_fit_are_not_joined(hub: Hub, tmp_path: Path, etag: str) -> None:
    hub.add_file(FILE, CONTENT, cuts=[500_000], etag=etag)
    assert fetched(hub, tmp_path / "new" / "file") == CONTENT
    assert ranges(hub) == ["", ""]


def test_a_server_without_ranges_sends_all_of_it_again(hub: Hub, tmp_path: Path) -> None:
    hub.add_file(FILE, CONTENT, cuts=[500_000], knows_ranges=False)
    assert fetched(hub, tmp_path / "new" / "file") == CONTENT


def test_leftovers_longer_than_the_file_are_thrown_away(hub: Hub, tmp_path: Path) -> None:
    hub.add_file(FILE, CONTENT)
    path = tmp_path / "new" / "file"
    path.parent.mkdir()
    path.with_name("file.part").write_bytes(b"x" * (len(CONTENT) + 1))
    assert fetched(hub, path, sha256=SHA256) == CONTENT


@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 5000), max_size=12),
    size=st.integers(0, 5000),
    knows_ranges=st.booleans(),
    etag=st.sampled_from(["", '"1"', 'W/"1"']),
)
def test_whatever_breaks_the_file_is_right_or_not_there(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], size: int, knows_ranges: bool, etag: str
) -> None:
    path = tmp_path_factory.mktemp("downloads") / "file"
    content = CONTENT[:size]
    with running() as hub:
        hub.add_file(FILE, content, cuts=cuts, knows_ranges=knows_ranges, etag=etag)
        for _ in range(2):
            code = trouble(Address(f"{hub.url}{FILE}"), path)
            assert code in ("", downloads.CUT)
            assert not path.exists() if code else path.read_bytes() == content
            path.unlink(missing_ok=True)


def test_a_wrong_file_is_refused_and_forgotten(hub: Hub, tmp_path: Path) -> None:
    hub.add_file(FILE, CONTENT[:-1] + b"!")
    path = tmp_path / "new" / "file"
    with pytest.raises(ModelError) as caught:
        fetched(hub, path, sha256=SHA256)
    assert caught.value.code == downloads.WRONG_CHECKSUM
    assert SHA256 in caught.value.message
    assert list(path.parent.iterdir()) == []


def test_the_checksum_of_google_counts(hub: Hub, tmp_path: Path) -> None:
    other = base64.b64encode(hashlib.md5(b"other", usedforsecurity=False).digest()).decode()
    file = hub.add_file(FILE, CONTENT, headers={"X-Goog-Hash": f"crc32c=AAAAAA==,md5={other}"})
    with pytest.raises(ModelError) as caught:
        fetched(hub, tmp_path / "new" / "file")
    assert caught.value.code == downloads.WRONG_CHECKSUM
    file.headers["X-Goog-Stored-Content-Encoding"] = "gzip"  # then it is that of other bytes
    assert fetched(hub, tmp_path / "new" / "file") == CONTENT


@pytest.mark.parametrize(
    ("status", "headers", "code"),
    [
        (404, {}, downloads.NOT_FOUND),
        (410, {}, downloads.NOT_FOUND),
        (401, {"X_Error_Code": "RepoNotFound"}, downloads.NOT_FOUND),
        (401, {"X_Error_Code": "GatedRepo"}, downloads.UNAUTHORIZED),
        (401, {}, downloads.UNAUTHORIZED),
        (403, {}, downloads.UNAUTHORIZED),
        (503, {}, ""),
    ],
)
def test_a_refusal_is_explained(hub: Hub, tmp_path: Path, status: int, headers: dict[str, str], code: str) -> None:
    hub.refuse(FILE, status, **headers)
    with pytest.raises(ModelError) as caught:
        fetched(hub, tmp_path / "new" / "file", advice="Log in.")
    assert caught.value.code == code
    assert str(status) in caught.value.message
    assert FILE in caught.value.message
    assert caught.value.hint == "Log in." or code != downloads.UNAUTHORIZED
    assert list((tmp_path / "new").iterdir()) == []


def test_without_a_network_the_error_says_so(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        download(Address(f"http://{HUB}:{closed_port()}/file"), tmp_path / "file")
    assert caught.value.code == downloads.OFFLINE
    assert HUB in caught.value.message


def test_a_redirect_to_a_host_that_cannot_be_reached_names_both(hub: Hub, tmp_path: Path) -> None:
    hub.redirect(FILE, f"http://{STORE}:{closed_port()}/stored")
    with pytest.raises(ModelError) as caught:
        fetched(hub, tmp_path / "new" / "file")
    assert caught.value.code == downloads.OFFLINE
    assert HUB in caught.value.message
    assert STORE in caught.value.message


def test_secrets_stay_with_their_host(hub: Hub, tmp_path: Path) -> None:
    hub.add_file("/stored", CONTENT)
    hub.redirect("/moved", f"http://{STORE}:{hub.port}/stored")
    hub.redirect(FILE, "/moved")
    download(Address(f"{hub.url}{FILE}", secrets={"Authorization": "Bearer secret"}), tmp_path / "file")
    told = {(one.host, one.path): "Authorization" in one.headers for one in hub.asked}
    assert told == {(HUB, FILE): True, (HUB, "/moved"): True, (STORE, "/stored"): False}


@pytest.mark.parametrize("to", ["ftp://localhost/file", "file:///etc/hostname"])
def test_a_redirect_out_of_the_web_is_refused(hub: Hub, tmp_path: Path, to: str) -> None:
    hub.redirect(FILE, to)
    with pytest.raises(ModelError):
        fetched(hub, tmp_path / "new" / "file")


def test_a_redirect_must_not_leave_encryption_behind() -> None:
    body, request, headers = io.BytesIO(), Request("https://hub.example/file"), HTTPMessage()
    with pytest.raises(ModelError) as caught:
        downloads._Redirects().redirect_request(request, body, 302, "Found", headers, "http://hub.example/")
    assert "http://hub.example/" in caught.value.message
    assert body.closed


def test_redirects_in_a_circle_end(hub: Hub, tmp_path: Path) -> None:
    hub.redirect(FILE, FILE)
    with pytest.raises(ModelError):
        fetched(hub, tmp_path / "new" / "file")


def test_two_processes_do_not_write_one_file(hub: Hub, tmp_path: Path) -> None:
    hub.add_file(FILE, CONTENT)
    path = tmp_path / "file"
    with (tmp_path / "file.part").open("ab") as other:
        fcntl.flock(other.fileno(), fcntl.LOCK_EX)
        with pytest.raises(ModelError):
            download(Address(f"{hub.url}{FILE}"), path)
        assert (tmp_path / "file.part").exists()
    assert hub.asked == []


def test_a_file_that_no_model_can_be_is_refused_at_once(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "MOST_BYTES", len(CONTENT) - 1)
    hub.add_file(FILE, CONTENT)
    with pytest.raises(ModelError):
        fetched(hub, tmp_path / "new" / "file")
    assert list((tmp_path / "new").iterdir()) == []
