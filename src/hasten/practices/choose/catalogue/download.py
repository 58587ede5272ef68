"""Downloads a file by HTTP: continued after a cut, verified by its checksum, and named only when it is whole.

urllib does the protocol, with proxies and certificates as the system has them. What it lacks is here: ranges, the hubs'
checksums, and errors that say what to do.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import os
import re
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import Request

from hasten.core.errors import DataError, ModelError
from hasten.core.version import VERSION
from hasten.measure.rounds import no_progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from http.client import HTTPMessage

    from hasten.measure.rounds import Progress

# What callers decide by.
OFFLINE: Final = "offline"
NOT_FOUND: Final = "not_found"
UNAUTHORIZED: Final = "unauthorized"
WRONG_CHECKSUM: Final = "wrong_checksum"
CUT: Final = "cut"

MOST_BYTES: Final = 2**31
"""A flatbuffer cannot be larger."""
_MOST_JSON_BYTES: Final = 2**20
_CHUNK_BYTES: Final = 2**18
_TIMEOUT_S: Final = 30.0
# A connection that breaks is opened again, but only a few times if that brings nothing new.
_MOST_CONNECTIONS: Final = 50
_MOST_FOR_NOTHING: Final = 3
_BY_HAND: Final = "Download the model by hand, and pass the file with --candidates FILE."
_ALGORITHMS: Final = {"sha256": "SHA-256", "md5": "MD5"}
_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
# Hugging Face answers 401 to questions for what does not exist as well, and says in this header which it is.
_ERROR_CODE: Final = "X-Error-Code"
_DOES_NOT_EXIST: Final = ("RepoNotFound", "RevisionNotFound", "EntryNotFound")


@dataclass(frozen=True, slots=True)
class Address:
    """What to fetch, and what must come of it."""

    url: str
    sha256: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Headers for the host of the address only: no other host gets to see them."""
    advice: str = _BY_HAND
    """What helps where the host wants to know who asks."""


class Checksum(NamedTuple):
    """What a file must come to, and who vouches for it."""

    algorithm: str
    digest: str
    by: str


def download(address: Address, path: Path, progress: Progress = no_progress) -> bool:
    """Fetch a file to `path`; whether anybody named a checksum to verify it by.

    What arrives of it stays beside it until it is whole, and is continued the next time.
    """
    part, mark = (path.with_name(f"{path.name}.{end}") for end in ("part", "etag"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as stream:
            _lock(stream, address)
            transfer = _Transfer(address, stream, mark, progress)
            try:
                is_verified = transfer.run()
                part.replace(path)
            finally:
                if not transfer.size:
                    part.unlink(missing_ok=True)
        mark.unlink(missing_ok=True)
        return is_verified
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}.", "Free some space, or set XDG_CACHE_HOME to another folder."
        ) from None


def read_json(address: Address) -> dict[str, Any]:
    """What a hub answers to a question."""
    with _reply(address, {}, _Redirects()) as response:
        answer = None
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            answer = json.loads(response.read(_MOST_JSON_BYTES)) if response is not None else None
    if not isinstance(answer, dict):
        raise ModelError(f"{_host(address.url)} sent an invalid response.", _BY_HAND)
    return answer


class _Transfer:
    """One file on its way, over as many connections as it takes."""

    def __init__(self, address: Address, stream: IO[bytes], mark: Path, progress: Progress) -> None:
        self._address, self._stream, self._mark, self._progress = address, stream, mark, progress
        self._host = _host(address.url)

    @property
    def size(self) -> int:
        """How many bytes are there."""
        return self._stream.seek(0, os.SEEK_END)

    def run(self) -> bool:
        """Fetch all of it, and check that it is the file that was asked for; whether there is a checksum to do so."""
        checksum = self._fetch()
        if checksum is None:
            return False
        self._stream.flush()
        found = _digest(Path(self._stream.name), checksum.algorithm)
        if found != checksum.digest:
            self._begin_anew()
            raise _changed(self._host, checksum, found)
        return True

    def _fetch(self) -> Checksum | None:
        """Return the checksum that the file must have, if anybody knows one."""
        for_nothing = 0
        for _ in range(_MOST_CONNECTIONS):
            before = self.size
            redirects = _Redirects()
            with _reply(self._address, self._headers(before), redirects) as response:
                if response is None:  # there is nothing behind what we have: that is of another file, then
                    self._begin_anew()
                elif self._receive(response):
                    return _checksum(self._address, [*redirects.passed, response.headers])
            for_nothing = 0 if self.size > before else for_nothing + 1
            if for_nothing == _MOST_FOR_NOTHING:
                break
        raise ModelError(
            f"The download from {self._host} was interrupted after {self.size / 1e6:.1f} MB.",
            "Run the same command again: it continues from there.",
            code=CUT,
        )

    def _begin_anew(self) -> None:
        """Forget what arrived."""
        self._stream.truncate(0)
        self._stream.seek(0)
        self._mark.unlink(missing_ok=True)

    def _headers(self, have: int) -> dict[str, str]:
        """What asks for the rest only, provided that the file is still the same."""
        etag = self._mark.read_text(encoding="ascii") if have and self._mark.exists() else ""
        if have and not etag and not self._address.sha256:  # nobody could tell whether the halves fit together
            self._begin_anew()
            return {}
        return {"Range": f"bytes={have}-", **({"If-Range": etag} if etag else {})} if have else {}

    def _receive(self, response: http.client.HTTPResponse) -> bool:
        """Append what comes; whether that was all."""
        self._host = _host(response.url)
        have = self._stream.tell()
        begins = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if have and not (response.status == HTTPStatus.PARTIAL_CONTENT and begins and int(begins[1]) == have):
            self._begin_anew()
        self._remember(response.headers.get("ETag", ""))
        length = response.headers.get("Content-Length", "")
        total = self._stream.tell() + int(length) if length.isdecimal() else None
        self._check_size(total or 0)
        ended = self._append(response, total)
        return ended and (total is None or self._stream.tell() >= total)

    def _append(self, response: http.client.HTTPResponse, total: int | None) -> bool:
        """Write until the connection ends; False where it broke, as far as that can be seen."""
        while True:
            try:
                chunk = response.read(_CHUNK_BYTES)
            except (OSError, http.client.HTTPException):
                return False
            if not chunk:
                return True
            self._stream.write(chunk)
            done = self._stream.tell()
            self._check_size(done)
            of_all = f" of {total / 1e6:.1f}" if total else ""
            self._progress(done / total if total else 0.0, f"{done / 1e6:.1f}{of_all} MB from {self._host}")

    def _check_size(self, size: int) -> None:
        if size > MOST_BYTES:
            self._begin_anew()
            raise ModelError(f"The file from {self._host} is larger than 2 GB, the limit for models.", _BY_HAND)

    def _remember(self, etag: str) -> None:
        """Keep the mark by which the host tells versions of the file apart; a weak one does not vouch for bytes."""
        strong = etag if etag.isascii() and not etag.startswith("W/") else ""
        self._mark.write_text(strong, encoding="ascii")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and keeps what each host said; secrets stay with the host that they are for."""

    max_redirections = 5

    def __init__(self) -> None:
        self.passed: list[HTTPMessage] = []
        self.url = ""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """The next request; an error where it would leave encryption behind."""
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme not in ("https", old.scheme):
            fp.close()
            raise ModelError(f"{old.netloc} redirects to {newurl}, which is not encrypted.", _BY_HAND)
        self.passed.append(headers)
        self.url = newurl
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and (old.scheme, old.netloc) == (new.scheme, new.netloc):
            for name, value in req.unredirected_hdrs.items():
                request.add_unredirected_header(name, value)
        return request


@contextlib.contextmanager
def _reply(
    address: Address, headers: Mapping[str, str], redirects: _Redirects
) -> Iterator[http.client.HTTPResponse | None]:
    """The host's reply; None where it has nothing in the range that was asked for."""
    given = {"User-Agent": f"hasten/{VERSION}", "Accept-Encoding": "identity", **headers}
    request = Request(address.url, headers=given)
    for name, value in address.secrets.items():
        request.add_unredirected_header(name, value)
    try:
        response = urllib.request.build_opener(redirects).open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise _refused(address, error) from None
        yield None
        return
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _unreachable(address, redirects.url, error) from None
    with response:
        yield response


def _refused(address: Address, error: urllib.error.HTTPError) -> ModelError:
    host, code = _host(error.url) or _host(address.url), error.code
    file = urlsplit(error.url).path  # what is behind it may be a signature
    missing = error.headers.get(_ERROR_CODE, "") in _DOES_NOT_EXIST
    if missing or code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        hint = "Check the location in the catalogue, or pass a local file with --candidates FILE."
        return ModelError(f"{host} has no file {file} (HTTP {code}).", hint, code=NOT_FOUND)
    if code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        message = f"{host} denies access to {file} (HTTP {code})."
        return ModelError(message, address.advice, code=UNAUTHORIZED)
    hint = "Try again later, or pass a local file with --candidates FILE."
    return ModelError(f"{host} does not deliver {file} (HTTP {code}).", hint)


def _unreachable(address: Address, redirected: str, error: Exception) -> ModelError:
    """The host that cannot be reached, and the one that sent us there: a firewall may know only the latter."""
    reason = getattr(error, "reason", error)
    words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    asked, host = _host(address.url), _host(redirected or address.url)
    way = f"{asked} redirects to {host}, which" if host != asked else host
    hint = f"Check the connection to {host}, or pass a local file with --candidates FILE."
    return ModelError(f"{way} cannot be reached: {words}.", hint, code=OFFLINE)


def _changed(host: str, checksum: Checksum, found: str) -> ModelError:
    return ModelError(
        f"The file from {host} has the wrong checksum: its {_ALGORITHMS[checksum.algorithm]} is {found}, "
        f"and {checksum.by} says {checksum.digest}.",
        "Run the command again. If it fails again, do not use the file.",
        code=WRONG_CHECKSUM,
    )


def _checksum(address: Address, replies: Sequence[HTTPMessage]) -> Checksum | None:
    """The checksum of the catalogue, or else that of the first host on the way that tells one."""
    if address.sha256:
        return Checksum("sha256", address.sha256, "the catalogue")
    for headers in replies:
        linked = headers.get("X-Linked-Etag", "").strip('"')  # Hugging Face
        if _SHA256.fullmatch(linked):
            return Checksum("sha256", linked, _host(address.url))
        if md5 := _md5_of_google(headers):
            return Checksum("md5", md5, _host(address.url))
    return None


def _md5_of_google(headers: HTTPMessage) -> str:
    """The checksum that Google's storage tells, which is also behind Kaggle; empty where it is of other bytes."""
    if headers.get("X-Goog-Stored-Content-Encoding", "identity") != "identity":
        return ""
    for part in ",".join(headers.get_all("X-Goog-Hash", [])).split(","):
        algorithm, _, encoded = part.strip().partition("=")
        if algorithm == "md5":
            with contextlib.suppress(ValueError):
                return base64.b64decode(encoded, validate=True).hex()
    return ""


def _digest(path: Path, algorithm: str) -> str:
    made = hashlib.new(algorithm, usedforsecurity=algorithm != "md5")
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            made.update(chunk)
    return made.hexdigest()


def _lock(stream: IO[bytes], address: Address) -> None:
    """Two processes that append to one file would spoil it."""
    try:
        import fcntl
    except ImportError:  # Windows: two downloads of one model at once are the user's to avoid
        return
    try:
        fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ModelError(
            f"Another process is downloading {address.url}.", "Wait until it ends, then run the command again."
        ) from None


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]
