"""Models whose file leaves a shape open: each command names the input, its shape, the option and a tested value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests import example_models
from tests.model_builder import ModelBuilder

from hasten import api
from hasten.core import doubts
from hasten.core.doubts import DOUBTS
from hasten.core.errors import HastenError, ModelError
from hasten.core.plan import Plan, Workload
from hasten.measure.effort import Effort
from hasten.measure.opening import open_model
from hasten.model.build_graph import Spec
from hasten.model.edit.file import bytes_from_object, object_from_bytes
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUICK = Effort(seconds=0.2)
COMMANDS: dict[str, Callable[[Path, Path], object]] = {
    "bench": lambda model, _: api.bench(model, effort=QUICK),
    "compare": lambda model, _: api.compare((model, Plan()), (model, Plan(threads=2)), effort=QUICK),
    "profile": lambda model, _: api.profile(model, roofline=False, effort=QUICK),
    "trace": lambda model, _: api.trace(model, effort=QUICK),
    "threads": lambda model, _: api.threads(model, effort=QUICK),
    "copies": lambda model, _: api.copies(model, effort=QUICK),
    "accelerators": lambda model, _: api.accelerators(model, effort=QUICK),
    "check": lambda model, _: api.check(model, {"latency": "5 ms"}, effort=QUICK),
    "run": lambda model, folder: api.run_once(model, folder / "sound.npy", effort=QUICK),
    "quantize": lambda model, folder: api.quantize(model, folder / "q", data=_data(folder), effort=QUICK),
    "tune": lambda model, folder: api.tune(model, folder / "t", effort=QUICK),
}


def _data(folder: Path) -> api.Data:
    np.savez(folder / "data.npz", x=np.zeros((8, 16000), np.float32), y=np.arange(8) % 4)
    return api.Data(str(folder / "data.npz"))


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_names_input_shape_and_an_option_that_works(command: str, tmp_path: Path) -> None:
    model = tmp_path / "sound.tflite"
    model.write_bytes(example_models.open_sound())
    np.save(tmp_path / "sound.npy", np.zeros(16000, np.float32))
    with pytest.raises(ModelError) as caught:
        COMMANDS[command](model, tmp_path)
    assert caught.value.message == (
        "sound.tflite: The model does not run with a shape of 1 for input 'audio', whose shape in the file is ?."
    )
    assert caught.value.hint == "Set the shape: --shape audio=16000. The model was tested and runs with it."
    assert api.bench(model, workload=Workload(shapes=(("audio", (16000,)),)), effort=QUICK).samples.median_ms > 0


def test_an_image_gets_a_usual_side(tmp_path: Path) -> None:
    model = tmp_path / "image.tflite"
    model.write_bytes(example_models.open_image(side=192))
    with pytest.raises(ModelError, match=r"'image', whose shape in the file is \?x\?x\?x3") as caught:
        api.bench(model, effort=QUICK)
    assert "--shape image=1x192x192x3" in caught.value.hint


def test_a_refused_shape_is_answered_with_one_that_runs(tmp_path: Path) -> None:
    model = tmp_path / "sound.tflite"
    model.write_bytes(example_models.open_sound())
    with pytest.raises(HastenError, match="requested input shapes: audio 1000") as caught:
        api.bench(model, workload=Workload(shapes=(("audio", (1000,)),)), effort=QUICK)
    assert "--shape audio=16000" in caught.value.hint


def test_where_no_usual_size_runs_those_tried_are_named(tmp_path: Path) -> None:
    model = tmp_path / "odd.tflite"
    model.write_bytes(example_models.open_sound(12345))
    with pytest.raises(ModelError) as caught:
        api.bench(model, effort=QUICK)
    assert "--shape audio=?;" in caught.value.hint
    assert "16000" in caught.value.hint


def test_no_size_at_all_is_not_called_damage(tmp_path: Path) -> None:
    model = tmp_path / "unset.tflite"
    model.write_bytes(example_models.open_sound(unset=True))
    with pytest.raises(ModelError, match="Input 'audio' has no size in the file"):
        api.bench(model, effort=QUICK)


def test_a_latency_of_a_shape_that_nobody_chose_is_doubtful(tmp_path: Path) -> None:
    model = tmp_path / "any.tflite"
    model.write_bytes(example_models.open_image())
    told = api.bench(model, effort=QUICK).doubts
    doubt = next(it for it in told if it.code == doubts.OPEN_SHAPE)
    assert DOUBTS.text(doubt) == ("The file leaves the shape of input 'image' open (?x?x?x3); the runs used 1x1x1x3.")
    assert "--shape image=1x224x224x3" in DOUBTS.hint(doubt)
    chosen, _ = open_model(model, workload=Workload(shapes=(("image", (1, 64, 64, 3)),)))
    assert not chosen.doubts


def test_an_open_batch_is_no_doubt(tmp_path: Path) -> None:
    model = tmp_path / "batch.tflite"
    model.write_bytes(example_models.dynamic_batch())
    assert not open_model(model)[0].doubts


def test_the_classic_interface_takes_the_names_of_the_signature(tmp_path: Path) -> None:
    model = tmp_path / "sound.tflite"
    model.write_bytes(example_models.open_sound())
    workload = Workload(shapes=(("audio", (16000,)),))
    assert api.bench(model, Plan(kernel="reference"), workload, effort=QUICK).samples.median_ms > 0


def test_the_classic_interface_takes_the_only_signature_by_its_name(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.operator("WHERE", [g.cast(g.input("x", (1, 4)), "bool")], [Spec((4, 2), "int64")])[0], "places")
    model = g.write(tmp_path / "places.tflite")
    (key,) = (signature.key for signature in read_graph(model).signatures)
    assert api.bench(model, workload=Workload(signature=key), effort=QUICK).samples.median_ms > 0


def test_names_in_advice_are_words_of_a_shell(tmp_path: Path) -> None:
    content = object_from_bytes(example_models.open_sound())
    content.signatureDefs[0].inputs[0].name = b"a; touch owned; #"
    model = tmp_path / "sound.tflite"
    model.write_bytes(bytes_from_object(content))
    with pytest.raises(ModelError) as caught:
        api.bench(model, effort=QUICK)
    assert caught.value.hint.startswith("Set the shape: --shape 'a; touch owned; #'=16000.")


def test_a_tuning_that_could_not_begin_does_not_stand_in_the_way_of_the_next(tmp_path: Path) -> None:
    model = tmp_path / "sound.tflite"
    model.write_bytes(example_models.open_sound())
    with pytest.raises(ModelError, match="does not run with a shape of 1"):
        api.tune(model, tmp_path / "out", effort=QUICK)
    workload = Workload(shapes=(("audio", (16000,)),))
    assert api.tune(model, tmp_path / "out", workload=workload, effort=Effort(seconds=1.0)).original.latency
