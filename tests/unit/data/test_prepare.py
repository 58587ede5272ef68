"""Raw data to a model's input: the words of --preprocess, sizes, ranges, types, and what does not fit."""

from __future__ import annotations

import builtins
import contextlib
import wave
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tests import example_models

from hasten.core.accuracy_notes import GUESSED_FLOAT, UNUSED_PREPROCESS
from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.plan import Workload
from hasten.core.remark import remark
from hasten.data.dataset import Sample
from hasten.data.prepare import Preparer
from hasten.data.preprocess import CHANNELS, LAYOUTS, RESIZES, Preprocess, preprocess_from_text, resolved
from hasten.data.tensor_forms import TensorForm, forms_from_graph, real_from_bytes, stored_from_real
from hasten.model.metadata import ModelMetadata, TensorMetadata
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from pathlib import Path

FLOAT_IMAGE = TensorForm("x", "x", (1, 4, 6, 3), "float32")


def image_form(dtype: str, scale: float = 0.0, zero_point: int = 0) -> TensorForm:
    return TensorForm("x", "x", (1, 4, 6, 3), dtype, scale, zero_point)


def metadata(mean: tuple[float, ...] = (), std: tuple[float, ...] = (), rate: int | None = None) -> ModelMetadata:
    entry = TensorMetadata("rgb", rate, mean, std, tensor="x")
    return ModelMetadata((entry,), ())


def prepared(
    form: TensorForm, source: Path | np.ndarray, text: str = "", said: ModelMetadata | None = None
) -> np.ndarray:
    (values,) = Preparer([form], preprocess_from_text(text), said).prepare(Sample("a sample", (source,)))
    assert values.shape == form.shape
    assert values.dtype == form.dtype
    return values


def pixels(seed: int = 0, shape: tuple[int, ...] = (4, 6, 3)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


# -- the words


numbers = st.lists(st.floats(-1e6, 1e6).filter(bool), min_size=1, max_size=4).map(tuple)


@given(
    st.builds(
        Preprocess,
        size=st.none() | st.tuples(st.integers(1, 9999), st.integers(1, 9999)),
        channels=st.none() | st.sampled_from(sorted(CHANNELS)),
        layout=st.none() | st.sampled_from(LAYOUTS),
        crop=st.floats(0.01, 1),
        resize=st.sampled_from(RESIZES),
        fit=st.sampled_from(("stretch", "crop")),
        mean=numbers,
        std=numbers,
        values_from=st.just("given"),
    )
)
def test_words_survive_a_round_trip(preprocess: Preprocess) -> None:
    assert preprocess_from_text(preprocess.describe()) == preprocess


def test_all_words_are_understood() -> None:
    text = "size=224x192,mean=127.5,std=1:2:3,channels=bgr,layout=nchw,crop=0.875,resize=bicubic,fit=crop,length=fit"
    found = preprocess_from_text(text)
    assert (found.size, found.mean, found.std, found.crop) == ((224, 192), (127.5,), (1, 2, 3), 0.875)
    assert preprocess_from_text("size=32").size == (32, 32)
    assert preprocess_from_text("") == preprocess_from_text("raw") == Preprocess()
    assert preprocess_from_text("std=255").mean == (0.0,)


@pytest.mark.parametrize(
    "text",
    ["color=red", "size", "size=0x3", "size=ax3", "mean=x", "mean=inf", "std=0", "crop=2", "crop=-1", "layout=hw"],
)
def test_words_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--preprocess"):
        preprocess_from_text(text)


def test_a_word_said_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="--preprocess gives mean more than once"):
        preprocess_from_text("mean=1,mean=2")


@given(st.text(max_size=30))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        found = preprocess_from_text(text)
    except UsageError:
        return
    assert isinstance(found, Preprocess)


def test_what_is_not_given_comes_from_metadata_then_from_the_shape() -> None:
    said = metadata((127.5,), (127.5,)).inputs[0]
    found = resolved(Preprocess(), FLOAT_IMAGE, said)
    assert (found.size, found.mean, found.values_from) == ((4, 6), (127.5,), "metadata")
    assert (found.channels, found.layout) == ("rgb", "nhwc")
    assert resolved(preprocess_from_text("mean=0,std=255"), FLOAT_IMAGE, said).std == (255.0,)
    assert resolved(Preprocess(), image_form("uint8"), said).mean is None
    assert resolved(Preprocess(), FLOAT_IMAGE).values_from == "default"
    turned = TensorForm("x", "x", (1, 3, 4, 6), "float32")
    assert (resolved(Preprocess(), turned).layout, resolved(Preprocess(), turned).size) == ("nchw", (4, 6))
    assert resolved(Preprocess(), TensorForm("x", "x", (1, 16000), "float32")).size is None


def test_a_variant_is_fed_by_its_scale_what_its_original_is_fed() -> None:
    """Whatever the type of the data, which would be taken for stored values elsewhere."""
    form, values = image_form("uint8", 2.0, 3), pixels()
    wanted = np.rint(values / 2.0 + 3)
    for given_values in (values, values.astype(np.float32), values.astype(np.int32)):
        for is_prepared in (False, True):
            sample = Sample("a sample", (given_values,), is_prepared=is_prepared)
            (found,) = Preparer([form], Preprocess(by_scale=("x",))).prepare(sample)
            assert found.dtype == np.uint8
            assert np.array_equal(found[0], wanted)
    said = metadata((127.5,), (127.5,))
    assert resolved(Preprocess(by_scale=("x",)), form, said.inputs[0]).mean == (127.5,)
    assert np.array_equal(prepared(form, values)[0], values)


# -- images


def test_pillow_is_asked_for_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_pillow(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return imported(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    with pytest.raises(UsageError, match="not installed") as caught:
        prepared(FLOAT_IMAGE, tmp_path / "a.png")
    assert "pip install 'hasten[images]'" in caught.value.hint


def test_an_image_that_fits_is_fed_as_it_is(tmp_path: Path) -> None:
    values = pixels()
    Image.fromarray(values).save(tmp_path / "a.png")
    np.testing.assert_array_equal(prepared(FLOAT_IMAGE, tmp_path / "a.png")[0], values)
    np.testing.assert_array_equal(prepared(image_form("uint8", 1 / 128, 128), tmp_path / "a.png")[0], values)
    np.testing.assert_array_equal(prepared(image_form("int8", 1 / 255, -128), values)[0], values.astype(int) - 128)
    bgr = prepared(FLOAT_IMAGE, tmp_path / "a.png", "channels=bgr")[0]
    np.testing.assert_array_equal(bgr, values[..., ::-1])


@pytest.mark.parametrize("said", [None, metadata((127.5,), (127.5,))])
def test_values_are_normalized_as_given_or_said(said: ModelMetadata | None) -> None:
    text = "" if said else "mean=127.5,std=127.5"
    found = prepared(FLOAT_IMAGE, pixels(), text, said)
    np.testing.assert_array_equal(found[0], (pixels() / 127.5 - 1).astype(np.float32))
    quantized = prepared(image_form("int8", 1 / 128, 0), pixels(), text, said)
    np.testing.assert_array_equal(quantized[0], np.clip(np.rint((pixels() / 127.5 - 1) * 128), -128, 127))


def test_channels_may_have_numbers_of_their_own() -> None:
    found = prepared(FLOAT_IMAGE, pixels(), "mean=1:2:3,std=4:5:6")
    np.testing.assert_allclose(found[0], (pixels() - np.array([1, 2, 3])) / np.array([4, 5, 6]), rtol=1e-6)
    with pytest.raises(UsageError, match="--preprocess gives 2 numbers for mean or std, and a sample has 3 channels"):
        prepared(FLOAT_IMAGE, pixels(), "mean=1:2")
    with pytest.raises(ModelError, match="The model's metadata has 2 numbers"):
        prepared(FLOAT_IMAGE, pixels(), "", metadata((1, 2), (1,)))


def test_resizing_cropping_and_fitting_are_pillows(tmp_path: Path) -> None:
    image = Image.fromarray(pixels(shape=(20, 40, 3)))
    image.save(tmp_path / "a.png")
    form = TensorForm("x", "x", (1, 10, 10, 3), "uint8")
    for text, wanted in (
        ("", image.resize((10, 10), Image.Resampling.BILINEAR)),
        ("resize=nearest,crop=0.5", image.crop((10, 5, 30, 15)).resize((10, 10), Image.Resampling.NEAREST)),
        ("fit=crop,resize=box", image.crop((10, 0, 30, 20)).resize((10, 10), Image.Resampling.BOX)),
    ):
        np.testing.assert_array_equal(prepared(form, tmp_path / "a.png", text)[0], np.asarray(wanted))
        np.testing.assert_array_equal(prepared(form, np.asarray(image), text)[0], np.asarray(wanted))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_are_turned_as_their_exif_data_say(orientation: int, tmp_path: Path) -> None:
    """Pillow's own turn is the yardstick."""
    image = Image.fromarray(pixels(shape=(4, 6, 3) if orientation < 5 else (6, 4, 3)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as stored:
        right = np.asarray(ImageOps.exif_transpose(stored))
    assert np.array_equal(prepared(image_form("uint8"), tmp_path / "a.png")[0], right)


def test_grey_and_channels_first(tmp_path: Path) -> None:
    Image.fromarray(pixels()).save(tmp_path / "a.png")
    gray = np.asarray(Image.fromarray(pixels()).convert("L"))
    for shape in ((1, 4, 6, 1), (1, 4, 6)):
        np.testing.assert_array_equal(
            prepared(TensorForm("x", "x", shape, "uint8"), tmp_path / "a.png").reshape(4, 6), gray
        )
    first = prepared(TensorForm("x", "x", (1, 3, 4, 6), "float32"), tmp_path / "a.png")
    np.testing.assert_array_equal(first[0], pixels().transpose(2, 0, 1))


def test_guesses_are_told() -> None:
    preparer = Preparer([FLOAT_IMAGE])
    preparer.prepare(Sample("s", (pixels().astype(np.float32),)))
    before = preparer.notes
    preparer.prepare(Sample("s", (pixels(),)))
    preparer.prepare(Sample("s", (pixels(),)))
    assert not before
    assert preparer.notes == (remark(GUESSED_FLOAT),)


def test_bad_images_are_named(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    whole = tmp_path / "whole.png"
    Image.fromarray(pixels(shape=(64, 64, 3))).save(whole)
    (tmp_path / "torn.png").write_bytes(whole.read_bytes()[:2000])
    Image.fromarray(np.zeros((4, 6), np.uint16)).save(tmp_path / "deep.png")
    for name, message in (
        ("text.png", "cannot be read as an image"),
        ("torn.png", "cannot be read as an image"),
        ("gone.png", "There is no image"),
        ("deep.png", "more than 8 bits"),
        ("a.mp3", "neither an image nor a WAV"),
    ):
        with pytest.raises(DataError, match=f"{name}.*{message}|{message}.*{name}"):
            prepared(FLOAT_IMAGE, tmp_path / name)


def test_an_image_for_an_input_that_takes_none(tmp_path: Path) -> None:
    Image.fromarray(pixels()).save(tmp_path / "a.png")
    with pytest.raises(DataError, match="does not take one"):
        prepared(TensorForm("x", "x", (1, 5), "float32"), tmp_path / "a.png")


@pytest.mark.parametrize(
    ("text", "fitting"),
    [("size=100x100", "size=8x9"), ("channels=gray", "channels=rgb"), ("layout=nchw", "layout=nhwc")],
)
def test_options_that_do_not_fit_the_model_are_blamed_and_not_the_image(
    tmp_path: Path, text: str, fitting: str
) -> None:
    Image.fromarray(pixels()).save(tmp_path / "a.png")
    with pytest.raises(UsageError, match=f"--preprocess {text} does not fit input 'x'") as caught:
        prepared(TensorForm("x", "x", (1, 8, 9, 3), "float32"), tmp_path / "a.png", text)
    assert fitting in caught.value.hint


def test_options_for_an_image_are_not_asked_of_other_inputs(tmp_path: Path) -> None:
    Image.fromarray(pixels()).save(tmp_path / "a.png")
    forms = [FLOAT_IMAGE, TensorForm("steps", "steps", (1, 7, 2), "float32")]
    sample = Sample("s", (tmp_path / "a.png", np.ones((7, 2), np.float32)))
    assert len(Preparer(forms, preprocess_from_text("size=4x6,channels=rgb,layout=nhwc")).prepare(sample)) == 2


def test_an_open_size_is_set_by_the_shape(tmp_path: Path) -> None:
    Image.fromarray(pixels()).save(tmp_path / "a.png")
    with pytest.raises(UsageError, match="size=4x6 does not fit") as caught:
        prepared(TensorForm("x", "x", (1, 1, 1, 3), "float32"), tmp_path / "a.png", "size=4x6")
    assert "--shape x=" in caught.value.hint


# -- arrays and audio


def test_arrays_that_do_not_fit_are_named() -> None:
    with pytest.raises(DataError, match=r"a sample has the shape \[2, 2\]"):
        prepared(TensorForm("x", "x", (1, 3), "float32"), np.zeros((2, 2)))
    with pytest.raises(DataError, match="does not fit") as caught:
        prepared(TensorForm("x", "x", (8, 3), "float32"), np.zeros(3))
    assert "8 samples at once" in caught.value.hint
    with pytest.raises(DataError, match="takes integers"):
        prepared(TensorForm("x", "x", (1, 3), "int32"), np.array([0.5, 1, 2]))
    with pytest.raises(DataError, match="which no input takes"):
        prepared(TensorForm("x", "x", (1, 3), "int32"), np.array(["a", "b", "c"]))
    for form in (FLOAT_IMAGE, image_form("int8", 0.5)):
        with pytest.raises(DataError, match="a sample has NaN in input 'x'"):
            prepared(form, np.full((4, 6, 3), np.nan, np.float32))
    assert np.isinf(prepared(FLOAT_IMAGE, np.full((4, 6, 3), -np.inf, np.float32))).all()
    with pytest.raises(ModelError, match="cannot make from data"):
        Preparer([TensorForm("x", "x", (1,), "string")]).prepare(Sample("s", (np.zeros(1),)))


def test_complex_numbers_are_refused_in_a_sentence() -> None:
    with pytest.raises(DataError, match="s holds complex numbers, but input 'x' takes float32") as caught:
        Preparer([TensorForm("x", "x", (1, 4), "float32")]).prepare(Sample("s", (np.ones(4, np.complex64),)))
    assert "real and imaginary parts" in caught.value.hint


def test_options_for_images_that_arrays_do_not_heed_are_noted_once(tmp_path: Path) -> None:
    form = image_form("float32")
    preparer = Preparer([form], preprocess_from_text("size=8x8,channels=gray,layout=nchw,std=255"))
    for _ in range(2):
        preparer.prepare(Sample("s", (np.ones(form.sample_shape, np.float32),)))
    options = "size=8x8,channels=gray,layout=nchw"
    assert preparer.notes == (remark(UNUSED_PREPROCESS, options=options, types=["float32"]),)
    Image.fromarray(pixels()).save(tmp_path / "a.png")
    height, width, _ = form.sample_shape
    for text, source in (
        ("std=255", np.ones(form.sample_shape, np.float32)),
        (f"size={height}x{width},std=255", pixels()),
        (f"size={height}x{width},std=255", tmp_path / "a.png"),
    ):
        heeding = Preparer([form], preprocess_from_text(text))
        heeding.prepare(Sample("s", (source,)))
        assert heeding.notes == ()


def test_a_layout_that_turns_arrays_has_an_effect() -> None:
    preparer = Preparer([TensorForm("x", "x", (1, 3, 4, 6), "float32")], preprocess_from_text("layout=nchw"))
    preparer.prepare(Sample("s", (pixels().astype(np.float32),)))
    assert preparer.notes == ()


def test_inputs_are_found_by_name_or_order() -> None:
    forms = [TensorForm("a", "t:0", (1, 2), "float32"), TensorForm("b", "u:0", (1, 3), "float32")]
    inputs = {"b": np.ones(3), "t:0": np.zeros(2)}
    assert [values.size for values in Preparer(forms).prepare(Sample("s", inputs))] == [2, 3]
    with pytest.raises(DataError, match="s has no values for input 'b'"):
        Preparer(forms).prepare(Sample("s", {"a": np.zeros(2)}))
    with pytest.raises(DataError, match="s has 1 input, but the model takes 2"):
        Preparer(forms).prepare(Sample("s", (np.zeros(2),)))


def write_wave(path: Path, values: np.ndarray, rate: int = 16000, width: int = 2) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(values.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        if width == 1:
            data = (values * 127 + 128).astype(np.uint8).tobytes()
        else:
            scaled = np.rint(values * (2.0 ** (8 * width - 1) - 1)).astype("<i4")
            data = scaled.reshape(-1, 1).view(np.uint8)[:, :width].tobytes()
        file.writeframes(data)
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_audio_is_read_at_any_width(tmp_path: Path, width: int) -> None:
    tone = np.sin(np.arange(100) / 5)[:, np.newaxis]
    path = write_wave(tmp_path / "a.wav", np.hstack([tone, tone]), width=width)
    found = prepared(TensorForm("x", "x", (1, 100), "float32"), path)
    np.testing.assert_allclose(found[0], tone[:, 0], atol=0.02 if width == 1 else 1e-4)


def test_audio_must_fit_in_length_and_rate(tmp_path: Path) -> None:
    path = write_wave(tmp_path / "a.wav", np.ones((50, 1)))
    form = TensorForm("x", "x", (1, 80), "float32")
    with pytest.raises(DataError, match=r"a\.wav has 50 values per channel, but the model takes 80"):
        prepared(form, path)
    assert np.count_nonzero(prepared(form, path, "length=fit")) == 50
    assert prepared(TensorForm("x", "x", (1, 20), "float32"), path, "length=fit").size == 20
    with pytest.raises(DataError, match="sample rate of 16000 Hz, but the model takes 8000"):
        prepared(form, path, "length=fit", metadata(rate=8000))
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    with pytest.raises(DataError, match=r"bad\.wav cannot be read as audio: it ends too early") as caught:
        prepared(form, tmp_path / "bad.wav")
    assert "--skip-bad" in caught.value.hint


@given(st.lists(st.tuples(st.integers(0, 43), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, 144))
def test_no_damage_to_audio_is_a_crash(tmp_path_factory: pytest.TempPathFactory, hits: Any, kept: int) -> None:
    path = write_wave(tmp_path_factory.getbasetemp() / "damaged.wav", np.ones((50, 1)))
    data = bytearray(path.read_bytes())
    for place, value in hits:
        data[place] = value
    path.write_bytes(data[:kept])
    with contextlib.suppress(DataError):
        prepared(TensorForm("x", "x", (1, 50), "float32"), path, "length=fit")


# -- forms


@given(st.floats(1e-3, 10), st.integers(-128, 127), st.lists(st.floats(-100, 100), min_size=1, max_size=20))
def test_quantizing_is_off_by_half_a_step_at_most(scale: float, zero_point: int, reals: list[float]) -> None:
    form = TensorForm("x", "x", (len(reals),), "int8", scale, zero_point)
    stored = stored_from_real(np.array(reals), form, "s")
    back = real_from_bytes(stored.tobytes(), form)
    low, high = (-128 - zero_point) * scale, (127 - zero_point) * scale
    assert np.all(np.abs(back - np.clip(reals, low, high)) <= scale * 0.5001 + 1e-4)


def test_outputs_of_other_types_and_sizes() -> None:
    half = TensorForm("y", "y", (2,), "bfloat16")
    np.testing.assert_array_equal(real_from_bytes(np.array([0x3F80, 0xC000], np.uint16).tobytes(), half), [1, -2])
    assert real_from_bytes(bytes(12), TensorForm("y", "y", (1, 2), "float32")).shape == (3,)


def test_forms_keep_the_signatures_order_and_know_the_engines(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(example_models.two_signatures())
    forms = forms_from_graph(read_graph(path), Workload(signature="multiply"))
    assert [form.name for form in forms.inputs] == ["a", "b"]
    turned = forms.in_effect([("b", (1, 4)), ("a", (1, 4))], [(form.name, form.shape) for form in forms.outputs])
    assert [form.name for form in turned.inputs] == ["a", "b"]
    assert turned.fed("ab") == ["b", "a"]
    assert [form.name for form in turned.in_engine_order.inputs] == ["b", "a"]
    with pytest.raises(ModelError, match="other inputs"):
        forms.in_effect([("z", (1, 4))], [])
    path.write_bytes(example_models.no_signature())
    assert len(forms_from_graph(read_graph(path), Workload()).inputs) == 1
    path.write_bytes(example_models.dynamic_batch())
    assert forms_from_graph(read_graph(path), Workload()).inputs[0].shape == (1, 8, 8, 3)
