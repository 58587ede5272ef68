"""The table of variants as a reader sees it: 80 columns, the choice first, every doubt said."""

from __future__ import annotations

import math
from dataclasses import replace

from hasten.core.accuracy import Accuracy, Kind, PairedAccuracy
from hasten.core.comparison import Comparison, Verdict
from hasten.core.mixing import Sensitivity
from hasten.core.plan import Plan, Workload
from hasten.core.quantization import BROKEN, FAILED, KEPT, ORIGINAL, UNKNOWN, VariantRow, finding_of
from hasten.core.statistics import Interval
from hasten.data.dataset import Dataset
from hasten.data.preprocess import preprocess_from_text
from hasten.practices.quantize_records import QuantizeData, QuantizeResult, feeding_options
from hasten.report.quantize_text import quantize_text

ACCURACY = Accuracy("top-1", 0.493, 0.45, 0.53, 500, "data.npz")
FASTER = Comparison(Verdict.UNDECIDED, 12.345, (0.6, 0.68), 0.01, 5)
ROWS = (
    VariantRow(ORIGINAL, "m.tflite", "aa", 1_882_904, 1_750_000, KEPT, accuracy=ACCURACY, latency=Interval(1, 1, 1)),
    VariantRow(
        "static_int8_min_max",
        "q/s.tflite",
        "bb",
        584_000,
        462_000,
        KEPT,
        accuracy=ACCURACY,
        against=FASTER,
        change=PairedAccuracy("top-1", 500, -0.012, -0.03, 0.004),
        latency=Interval(123.0, -math.inf, math.inf),
        notes=("said once", "said of this one"),
        why="on the reporting half it loses more than the floor allows",
    ),
    VariantRow(
        "static_int8_min_max_but_12",
        "q/b.tflite",
        "cc",
        584_000,
        462_000,
        BROKEN,
        choosing=ACCURACY,
        float_nodes=(1, 2),
        notes=("said once",),
        latency=Interval(1.0, 0.1, 40.0),
    ),
    VariantRow("static_int8_but_3", "", "dd", 5, 4, KEPT, float_nodes=(1, 2, 3), notes=("said once",)),
    VariantRow("static_int16", floor=FAILED, why="the runner crashed [bold]at once[/bold]"),
)
FOUND = QuantizeResult(
    ROWS,
    "static_int8_min_max",
    "q/chosen.tflite",
    "it is faster.",
    finding_of(ROWS, "speed"),
    0.01,
    "speed",
    "data.npz",
    (Sensitivity("r", (4, 5), "CONV_2D and 1 more", "layer/" * 40, 0.25, 0.1),),
    ("a note",),
)


FEEDING = feeding_options(
    QuantizeData(Dataset("data.npz", [], labelled=True), preprocess=preprocess_from_text("std=255")), skip_bad=True
)


def test_the_text_fits_and_begins_with_the_choice() -> None:
    text = quantize_text("folder/model.tflite", FOUND)
    assert text.startswith("model.tflite: it is faster.\nChosen: static_int8_min_max, copied to q/chosen.tflite")
    assert max(map(len, text.splitlines())) <= 80


def test_each_figure_has_its_interval_and_its_change() -> None:
    flat = " ".join(quantize_text("m.tflite", FOUND).split())
    assert "top-1 49.3% (45.0% to 53.0%) on 500 samples; -1.2% against the original (-3.0% to +0.4%)" in flat
    assert "undecided 12 " in flat
    assert "on the reporting half it loses more" in flat


def test_a_failed_variant_has_its_reason_and_names_are_not_markup() -> None:
    flat = " ".join(quantize_text("m.tflite", FOUND).split())
    assert "static_int16: the runner crashed [bold]at once[/bold]" in flat


def test_common_notes_are_said_once_and_steps_of_a_mix_are_left_out() -> None:
    text = quantize_text("m.tflite", FOUND)
    assert text.count("said once") == 1
    assert "said of this one" in text
    assert "static_int8_but_3" not in text
    assert "static_int8…n" not in text
    assert "_but_12" in text


def test_the_most_sensitive_nodes_are_named() -> None:
    assert "25%  node 4-5 CONV_2D and 1 more layer/" in quantize_text("m.tflite", FOUND)


def test_agreement_and_unknown_accuracy_are_called_so() -> None:
    for kind, words in ((Kind.AGREEMENT, "agreement (top-1) 49.3%"), (Kind.UNKNOWN, "unknown accuracy, agreement on")):
        rows = (replace(ROWS[0], accuracy=replace(ACCURACY, kind=kind)),)
        assert words in " ".join(quantize_text("m.tflite", replace(FOUND, rows=rows)).split())


def test_other_metrics_are_plain_numbers() -> None:
    rows = (replace(ROWS[0], accuracy=replace(ACCURACY, metric="mae", value=12.5, low=-math.inf)),)
    assert "mae 12.5 (unknown to 0.53)" in " ".join(quantize_text("m.tflite", replace(FOUND, rows=rows)).split())


def test_what_is_quantised_already_is_told_with_what_was_measured_of_it() -> None:
    timed = replace(ROWS[0], latency=Interval(1.25, 1.2, 1.3))
    already = "it is quantised already"
    found = replace(FOUND, rows=(timed,), already=already, why=already, chosen=ORIGINAL)
    flat = " ".join(quantize_text("m.tflite", found).split())
    assert flat.startswith("it is quantised already Chosen: original")
    assert "Measured: 1.25 ms a run (95 % interval 1.20 - 1.30 ms); top-1 49.3% (45.0% to 53.0%) on 500" in flat
    assert flat.endswith("one half of data.npz ! a note")
    unlabelled = replace(timed, accuracy=replace(ACCURACY, kind=Kind.AGREEMENT, value=1.0))
    assert quantize_text("m.tflite", replace(found, rows=(unlabelled,))).endswith("1.30 ms)")
    unmeasured = replace(found, rows=(replace(timed, accuracy=None, latency=None),))
    assert len(quantize_text("m.tflite", unmeasured).splitlines()) == 2


def test_what_is_slower_or_wrong_comes_with_the_command_that_says_why() -> None:
    slower = replace(ROWS[1], against=replace(FASTER, verdict=Verdict.SLOWER))
    wrong = replace(ROWS[1], recipe="float16", path="q/my model.tflite", floor=BROKEN)
    found = replace(FOUND, rows=(ROWS[0], slower, wrong), plan=Plan(threads=2), feeding=FEEDING)
    lines = quantize_text("m.tflite", found).splitlines()
    assert "why is static_int8_min_max slower?" in lines
    assert "  hasten compare m.tflite q/s.tflite --explain --threads 2" in lines
    command = "  hasten compare m.tflite 'q/my model.tflite' --explain --threads 2"
    assert f"{command} --data data.npz --preprocess mean=0,std=255 --skip-bad" in lines
    optional = replace(found, plan=Plan(options=(("cpu.flags", "1"), ("cpu.cache", '"a b"'))))
    assert "--explain --option cpu.flags=1 --option 'cpu.cache=\"a b\"'" in optional.hints[0]
    shaped = replace(found, plan=Plan(), workload=Workload("second", (("x", (1, 8)),)), feeding=())
    assert "--explain --signature second --shape x=1x8" in shaped.hints[0]
    both = replace(FOUND, rows=(ROWS[0], replace(slower, floor=BROKEN)))
    assert "why is static_int8_min_max slower, and wrong?" in quantize_text("m.tflite", both)
    assert len(both.hints) == 1
    assert FOUND.hints == ()


def test_samples_that_were_left_out_are_counted_and_the_first_are_named() -> None:
    skipped = tuple((f"{number}.png", f"pictures/{number}.png cannot be read") for number in range(5))
    flat = " ".join(quantize_text("m.tflite", replace(FOUND, skipped=skipped)).split())
    assert "5 bad samples were left out: pictures/0.png cannot be read; " in flat
    assert "and 2 more, which --json lists" in flat


def test_a_mix_says_how_much_of_it_is_integers() -> None:
    rows = (ROWS[0], replace(ROWS[2], integer_share=0.84))
    flat = " ".join(quantize_text("m.tflite", replace(FOUND, rows=rows)).split())
    assert "2 nodes stay float, 84% of the weights are integers" in flat


def table_of(*rows: VariantRow) -> list[list[str]]:
    """The table's cells, the head first; the verdict and its ratio are two."""
    lines = quantize_text("m.tflite", replace(FOUND, rows=rows, sensitivity=())).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("variant"))
    return [line.split() for line in lines[begin : begin + 1 + len(rows)]]


def test_a_variant_judged_on_other_samples_shows_its_change_and_not_a_value_to_compare() -> None:
    early = replace(ROWS[2], choosing=replace(ACCURACY, value=0.793, samples=29), drop=0.069)
    assert table_of(ROWS[0], early)[2][-2:] == ["-6.9%", "broken"]
    flat = " ".join(quantize_text("m.tflite", replace(FOUND, rows=(ROWS[0], early))).split())
    assert "79.3%" not in flat
    assert "top-1 -6.9% against the original on 29 samples of the first half" in flat
    assert "one with a sign is the change against the original" in flat


def test_a_variant_that_broke_the_floor_on_the_other_half_shows_its_value_there() -> None:
    late = replace(ROWS[1], floor=BROKEN, choosing=ACCURACY, drop=0.0)
    assert table_of(ROWS[0], late)[2][-2:] == ["49.3%", "broken"]
    flat = " ".join(quantize_text("m.tflite", replace(FOUND, rows=(ROWS[0], late))).split())
    assert "figures are of the other half." in flat
    assert "with a sign" not in flat


def test_a_change_is_not_taken_for_a_value_where_values_may_be_below_0() -> None:
    own = replace(ACCURACY, metric="mine:likelihood", value=-3.47)
    worse = replace(ROWS[2], choosing=replace(own, value=-5.66), drop=2.19)
    rows = (replace(ROWS[0], accuracy=own), worse)
    assert [cells[-2] for cells in table_of(*rows)[1:]] == ["-3.47", "Δ-2.19"]
    flat = " ".join(quantize_text("m.tflite", replace(FOUND, rows=rows)).split())
    assert "one with Δ is the change against the original" in flat
    assert "mine:likelihood -2.19 against the original on 500 samples" in flat
    error = replace(own, higher_is_better=False)
    assert table_of(rows[0], replace(worse, choosing=error))[2][-2] == "Δ+2.19"


def test_an_error_that_grows_is_a_loss() -> None:
    mae = replace(ACCURACY, metric="mae", value=7.6213e-5, higher_is_better=False)
    worse = replace(ROWS[2], choosing=mae, drop=4.123e-3)
    cells = table_of(replace(ROWS[0], accuracy=mae), worse)
    assert (cells[0][-2], cells[1][-2], cells[2][-2]) == ("mae", "7.6e-05", "Δ+0.004")


def test_agreement_stands_in_the_head_and_unknown_is_not_cut() -> None:
    for kind in (Kind.AGREEMENT, Kind.UNKNOWN):
        agreed = replace(ACCURACY, kind=kind, value=0.975)
        cells = table_of(
            replace(ROWS[0], accuracy=replace(agreed, value=1.0)),
            replace(ROWS[2], choosing=agreed, drop=0.025, floor=UNKNOWN),
        )
        assert cells[0][-2] == "agreement"
        assert cells[1][-2] == "100.0%"
        assert cells[2][-2:] == ["97.5%", "unknown"]


def test_an_error_without_labels_is_called_a_deviation() -> None:
    agreed = replace(ACCURACY, kind=Kind.AGREEMENT, metric="mae", value=0.0)
    assert table_of(replace(ROWS[0], accuracy=agreed))[0][-2] == "deviation"
    text = quantize_text("m.tflite", replace(FOUND, rows=(replace(ROWS[0], accuracy=agreed),)))
    assert "original: deviation (mae) 0 (" in text


def test_a_metric_of_the_users_own_is_called_by_its_function() -> None:
    for name, shown in (("md:score", "score"), ("my.metrics:weighted_recall", "weighted…")):
        assert table_of(replace(ROWS[0], accuracy=replace(ACCURACY, metric=name)))[0][-2] == shown


def test_what_is_cut_ends_in_an_ellipsis_and_one_is_not_plural() -> None:
    rows = (ROWS[0], replace(ROWS[2], float_nodes=(1,)))
    lines = quantize_text("m.tflite", replace(FOUND, rows=rows)).splitlines()
    (sensitive,) = (line for line in lines if "CONV_2D and 1 more" in line)
    assert len(sensitive) == 80
    assert sensitive.endswith("…")
    assert "1 node stays float" in " ".join(" ".join(lines).split())


def test_the_floor_is_said_as_the_metric_takes_it() -> None:
    found = replace(FOUND, floor={"text": "mae at most 1.0% (0.5) worse than the original's 50"})
    assert "Floor: mae at most 1.0% (0.5) worse than the original's 50, decided on" in " ".join(
        quantize_text("m.tflite", found).split()
    )
