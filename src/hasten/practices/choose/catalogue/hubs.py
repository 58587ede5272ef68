"""Where a file with weights is: the protocols of Hugging Face and Kaggle, plain addresses, and local paths."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from hasten.core.errors import DataError
from hasten.practices.choose.catalogue.download import Address, read_json

if TYPE_CHECKING:
    from hasten.practices.choose.catalogue.entry import WeightSource

_HUGGING_FACE: Final = "hf:"
_KAGGLE: Final = "kaggle:"
_SCHEMES: Final = ("http", "https")
_THIS_MACHINE: Final = ("localhost", "127.0.0.1", "::1")
# The variables that the hubs' own programs read as well.
_HUGGING_FACE_ENDPOINT: Final = ("HF_ENDPOINT", "https://huggingface.co")
_KAGGLE_ENDPOINT: Final = ("KAGGLE_API_ENDPOINT", "https://www.kaggle.com")
_REVISION: Final = "main"


def is_path(location: str) -> bool:
    """Whether a location is on this machine."""
    return not location.startswith((_HUGGING_FACE, _KAGGLE)) and urlsplit(location).scheme not in _SCHEMES


def address_of(source: WeightSource) -> Address:
    """What to download; Kaggle is asked for the newest version where none is given."""
    if source.location.startswith(_HUGGING_FACE):
        return _on_hugging_face(source)
    if source.location.startswith(_KAGGLE):
        return _on_kaggle(source)
    _refuse_unprotected(source)
    return Address(source.location, source.sha256)


def _refuse_unprotected(source: WeightSource) -> None:
    """Refuse what anybody on the way could replace unnoticed."""
    parts = urlsplit(source.location)
    if parts.scheme == "http" and not source.sha256 and parts.hostname not in _THIS_MACHINE:
        raise DataError(
            f"{source.location} is not encrypted, and the catalogue has no checksum of it.",
            "Use an address that begins with https://, or add its sha256 to the catalogue.",
        )


def _on_hugging_face(source: WeightSource) -> Address:
    owner, repository, file = _parts(source, 3)
    repository, _, revision = repository.partition("@")
    endpoint = _endpoint(_HUGGING_FACE_ENDPOINT)
    url = f"{endpoint}/{owner}/{repository}/resolve/{quote(revision or _REVISION, safe='')}/{quote(file)}"
    token = os.environ.get("HF_TOKEN", "")
    return Address(
        url,
        source.sha256,
        {"Authorization": f"Bearer {token}"} if token else {},
        f"Accept the terms on {endpoint}/{owner}/{repository}, and set HF_TOKEN to an access token.",
    )


def _on_kaggle(source: WeightSource) -> Address:
    owner, model, framework, rest = _parts(source, 4)
    variation, _, version = rest.partition("/")
    endpoint = _endpoint(_KAGGLE_ENDPOINT)
    model_url = f"{endpoint}/api/v1/models/{owner}/{model}/{framework}/{variation}"
    user, key = os.environ.get("KAGGLE_USERNAME", ""), os.environ.get("KAGGLE_KEY", "")
    basic = base64.b64encode(f"{user}:{key}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}"} if user and key else {}
    advice = f"Accept the terms on {endpoint}/models/{owner}/{model}, and set KAGGLE_USERNAME and KAGGLE_KEY."
    if not version:
        answer = read_json(Address(f"{model_url}/get", "", headers, advice))
        version = str(answer.get("versionNumber", ""))
        if not version.isdecimal():
            raise DataError(
                f"Kaggle names no version of {owner}/{model}/{framework}/{variation}.",
                "Add the version to the location in the catalogue.",
            )
    return Address(f"{model_url}/{version}/download", source.sha256, headers, advice)


def _parts(source: WeightSource, count: int) -> list[str]:
    """The parts of a location behind its hub; the last one may have slashes."""
    _, _, rest = source.location.partition(":")
    parts = rest.split("/", count - 1)
    if len(parts) < count or not all(parts):
        raise DataError(
            f"The location {source.location!r} in the catalogue is incomplete.",
            "Write hf:OWNER/REPOSITORY/FILE or kaggle:OWNER/MODEL/FRAMEWORK/VARIATION.",
        )
    return parts


def _endpoint(variable: tuple[str, str]) -> str:
    name, usual = variable
    return (os.environ.get(name) or usual).rstrip("/")
