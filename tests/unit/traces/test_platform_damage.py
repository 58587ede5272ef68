"""Damaged, cut, lying and foreign files: what can be read is shown with a doubt, or a sentence says why not."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING, Final

import constructed
import constructed_samples
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from rich.cells import cell_len
from test_platform_formats import examined
from timelines import camera

from hasten.core.errors import DataError, HastenError, UsageError
from hasten.core.platform_trace import DAMAGED, LOST_EVENTS, NO_TFLITE, TOO_LARGE, TRUNCATED
from hasten.core.remark import remark
from hasten.practices.app.recorded.analysis import analyze_trace
from hasten.practices.app.timeline import trace_timeline
from hasten.practices.app.view import document, view
from hasten.show.terminal import terminal_text
from hasten.traces import instruments
from hasten.traces.reading import FORMATS, read_trace

if TYPE_CHECKING:
    from pathlib import Path

_LIFE: Final = camera(frames=6)
_SAMPLES: Final = constructed_samples.session(2)
WHOLE: Final[dict[str, tuple[str, bytes]]] = {
    "perfetto": ("perfetto", constructed.perfetto(_LIFE)),
    "compact": ("perfetto", constructed.perfetto(_LIFE, compact=True)),
    "compressed": ("perfetto", constructed.perfetto(_LIFE, compressed=True)),
    "tracks": ("perfetto", constructed.perfetto_track_events(_LIFE)),
    "samples": ("perfetto", constructed_samples.perfetto_samples(_SAMPLES)),
    "atrace": ("atrace", constructed.atrace(_LIFE).encode()),
    "systrace": ("atrace", constructed.systrace(_LIFE).encode()),
    "chrome": ("chrome", constructed.chrome(_LIFE).encode()),
    "intervals": ("instruments", constructed.instruments_intervals(_LIFE).encode()),
    "events": ("instruments", constructed.instruments_events(_LIFE).encode()),
    "profile": ("instruments", constructed_samples.instruments_profile(_SAMPLES).encode()),
    "perf": ("perf", constructed_samples.perf_script(_SAMPLES).encode()),
    "evented": ("speedscope", constructed_samples.speedscope_evented(_SAMPLES).encode()),
    "folded": ("folded", constructed_samples.folded(_SAMPLES).encode()),
}
_BYTES: Final = st.binary(max_size=12)
_CUTS: Final = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), _BYTES), min_size=1, max_size=6)


def survives(path: Path, content: bytes, kind: str = "") -> None:
    """Reading ends in a result that can be shown in every way, or in a sentence."""
    path.write_bytes(content)
    try:
        trace = read_trace(path, kind)
    except HastenError:
        return
    found = analyze_trace(trace)
    json.dumps(document(found), allow_nan=False)
    # An accent that combines with the letter before it takes no room.
    assert all(cell_len(line) <= 80 for line in terminal_text(view(found), verbose=True).splitlines())
    json.loads(trace_timeline(trace))


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=_CUTS)
def test_random_damage_never_ends_in_a_traceback(
    tmp_path: Path, name: str, cuts: list[tuple[float, int, bytes]]
) -> None:
    kind, content = WHOLE[name]
    damaged = bytearray(content)
    for place, length, instead in cuts:
        at = int(place * len(damaged))
        damaged[at : at + length] = instead
    survives(tmp_path / "trace", bytes(damaged), kind)


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(min_size=1, max_size=300))
def test_random_bytes_never_end_in_a_traceback(tmp_path: Path, kind: str, content: bytes) -> None:
    survives(tmp_path / "trace", content, kind)
    survives(tmp_path / "trace", content)


@pytest.mark.parametrize("name", [name for name in WHOLE if name not in ("compressed", "evented")])
def test_half_a_file_gives_what_it_holds(tmp_path: Path, name: str) -> None:
    kind, content = WHOLE[name]
    found = examined(tmp_path, content[: len(content) * 3 // 5], kind)

    assert found.split.inference_ms > 0


@pytest.mark.parametrize(
    "name", ["perfetto", "compact", "tracks", "samples", "chrome", "intervals", "events", "profile"]
)
def test_a_file_that_breaks_off_is_called_incomplete(tmp_path: Path, name: str) -> None:
    kind, content = WHOLE[name]
    found = examined(tmp_path, content[: len(content) * 9 // 10], kind)

    assert not found.source.complete
    assert TRUNCATED in {doubt.code for doubt in found.doubts}


def test_half_a_profile_without_its_names_is_refused_in_a_sentence(tmp_path: Path) -> None:
    kind, content = WHOLE["evented"]
    with pytest.raises(DataError, match="ends inside"):
        examined(tmp_path, content[: len(content) // 2], kind)


def test_a_cut_perfetto_trace_says_what_is_missing(tmp_path: Path) -> None:
    content = constructed.perfetto_track_events(camera())
    found = examined(tmp_path, content[: len(content) - 5])

    assert TRUNCATED in {doubt.code for doubt in found.doubts}
    assert found.inferences is not None
    assert found.inferences.count == 20


def test_packets_after_a_lying_length_are_found_again(tmp_path: Path) -> None:
    content = constructed.perfetto_track_events(camera())
    at = content.index(b"\x0a", len(content) // 2)
    lying = content[:at] + b"\x0a\xff\xff\xff\xff\x7f" + content[at:]
    found = examined(tmp_path, lying)

    assert DAMAGED in {doubt.code for doubt in found.doubts}
    assert found.inferences is not None
    assert found.inferences.count > 15


@pytest.mark.parametrize("damage", ["@@@", f'"id": {"9" * 5000}, '], ids=["no JSON", "an endless number"])
def test_events_next_to_a_damaged_one_are_read(damage: str, tmp_path: Path) -> None:
    content = constructed.chrome(camera())
    at = content.index('"ts"', len(content) // 2)
    found = examined(tmp_path, f"{content[:at]}{damage}{content[at:]}")

    assert not found.source.complete
    assert found.inferences is not None
    assert found.inferences.count >= 19


def test_compressed_packets_that_unpack_to_far_more_are_cut(tmp_path: Path) -> None:
    trace = pb.Trace.FromString(constructed.perfetto(camera()))
    packer = zlib.compressobj(9)
    empty = b"\x0a\x84\x08\x92\x3f\x80\x08" + bytes(1024)
    packed = b"".join(packer.compress(empty * 1024) for _ in range(40)) + packer.flush()
    trace.packet.add().compressed_packets = packed
    found = examined(tmp_path, trace.SerializeToString())

    assert len(packed) < 1 << 20
    assert TOO_LARGE in {doubt.code for doubt in found.doubts}
    assert found.inferences is not None
    assert found.inferences.count == 20


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("chrome", b'{"traceEvents":[' + b'{"args":' * 200_000),
        ("speedscope", b'{"profiles":' + b"[" * 200_000),
        ("instruments", b"<trace-query-result>" + b"<row>" * 100_000),
        ("perfetto", b"\x0a\x80\x04" + b"\x5a\x80\x01" * 200),
        ("folded", b"a;" * 100_000 + b"b 1\n"),
        ("atrace", b"x" * 1_000_000),
        ("perf", b"a" * 500_000 + b" 1 2.000: x:"),
    ],
)
def test_deep_nesting_and_endless_lines_end(tmp_path: Path, kind: str, content: bytes) -> None:
    survives(tmp_path / "trace", content, kind)


def test_a_trace_in_gzip_is_unpacked(tmp_path: Path) -> None:
    found = examined(tmp_path, gzip.compress(constructed.atrace(camera()).encode()))

    assert found.source.kind == "atrace"
    assert found.inferences is not None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PERFILE2" + b"\0" * 100, "perf script"),
        (b"Dear reader,\nthis is a letter.\n", "perfetto"),
        (b'{"name": "not a trace"}', "speedscope"),
        (b"", ""),
        (b'<?xml version="1.0"?><trace-toc><run number="1"/></trace-toc>', "xctrace export"),
    ],
)
def test_what_is_no_trace_is_refused_with_a_hint(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)

    with pytest.raises(DataError) as caught:
        read_trace(path)
    assert words in caught.value.hint
    assert caught.value.exit_code == 3


def test_a_folder_of_instruments_says_how_to_export(tmp_path: Path) -> None:
    folder = tmp_path / "session.trace"
    folder.mkdir()

    with pytest.raises(DataError, match="folder") as caught:
        read_trace(folder)
    assert "xctrace export" in caught.value.hint


def test_an_unknown_kind_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="systemtap"):
        read_trace(tmp_path / "none", "systemtap")


def test_events_lost_by_the_recorder_are_a_doubt(tmp_path: Path) -> None:
    trace = pb.Trace.FromString(constructed.perfetto(camera()))
    trace.packet.add().trace_stats.buffer_stats.add(trace_writer_packet_loss=7)
    found = examined(tmp_path, trace.SerializeToString())

    assert not found.source.complete
    assert remark(LOST_EVENTS, cause="packets", count=7) in found.doubts


def test_a_trace_without_tflite_says_how_to_turn_it_on(tmp_path: Path) -> None:
    text = "".join(line for line in constructed.atrace(camera()).splitlines(keepends=True) if "@" not in line)
    found = examined(tmp_path, text)

    assert {doubt.code for doubt in found.doubts} >= {NO_TFLITE}
    assert "debug.tflite.trace" in terminal_text(view(found))


@pytest.mark.parametrize(
    "rows",
    [
        "<row><start-time>1</start-time></row>{blanks}",
        "<row><start-time ref='1'>{blanks}</start-time></row>",
        "<a/>{blanks}",
    ],
    ids=["rows", "references", "elements"],
)
def test_the_work_for_an_export_grows_as_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str) -> None:
    written = 0

    class CountingCell(instruments.Cell):
        def __setattr__(self, name: str, value: object) -> None:
            nonlocal written
            written += len(value) if name == "text" and isinstance(value, str) else 0
            super().__setattr__(name, value)

    monkeypatch.setattr(instruments, "Cell", CountingCell)
    head = "<trace-query-result><node><schema name='x'/><row><start-time id='1'>7</start-time></row>"
    content = f"{head}{rows.format(blanks=' ' * 100) * 1000}</node></trace-query-result>"
    survives(tmp_path / "trace", content.encode(), "instruments")
    assert 0 < written < 2 * len(content)
