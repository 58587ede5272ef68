"""What the catalogue knows of a model: its architecture, its cost, published accuracies, and where trained weights are.

The records are the keys of the catalogue's files (`models.toml`, and those of `--catalogue FILE`).
"""

from __future__ import annotations

from hasten.core.codec import record


@record
class Published:
    """An accuracy that somebody published. It belongs to these weights, this input size and this precision only."""

    value: float
    """As hasten measures it: a share of 1 for every metric here."""
    metric: str
    weights: str
    """Which training: the name that the source gives to it."""
    input_size: int
    precision: str
    """That of the file: uint8 as well, which hasten does not build."""
    source: str
    """An address that shows the figure."""
    license: str = ""
    """Of the source."""
    data: str = ""
    """What it was measured on, where that is not what the others of the task were measured on."""


@record
class Counted:
    """Parameters and MACs as a source gives them, with as many digits: "569M", "3504872"."""

    parameters: str = ""
    macs: str = ""
    source: str = ""
    license: str = ""
    difference: str = ""
    """Why the built model has other numbers, where they differ by more than 1 % and the rounding of the source."""


@record
class WeightSource:
    """Where a file with trained weights is.

    `location` is one of `hf:OWNER/REPOSITORY/FILE` (with `@REVISION` behind the repository), `kaggle:OWNER/MODEL/
    FRAMEWORK/VARIATION` (with `/VERSION`), an address, or the path of a file or folder, relative to the catalogue's
    file. An archive is opened; `member` names the file inside, where there are several.
    """

    location: str
    precision: str = "float32"
    weights: str = ""
    member: str = ""
    sha256: str = ""
    """Of what is downloaded (the archive, if it is one) or of the local file. Empty where only the hub knows it."""
    source: str = ""
    """An address that names the location."""
    license: str = ""


@record
class Settings:
    """What tells the models of one family apart. Each family reads what it needs."""

    variant: str = ""
    width: float = 1.0
    depth: float = 1.0
    classes: int = 1000
    output_stride: int = 32


@record
class Entry:
    """A model of the catalogue."""

    name: str
    task: str
    input_size: int
    """The side of the image; for a spectrogram, the number of frames."""
    family: str = ""
    """The generator that draws it; empty for a model of which only weights are known."""
    settings: Settings = Settings()
    input_shape: tuple[int, ...] = ()
    """Empty for a square image of three colors."""
    common: bool = False
    """Whether `choose` tries it unless it is told which models to try."""
    parameters: int | None = None
    macs: int | None = None
    counted: Counted = Counted()
    accuracies: tuple[Published, ...] = ()
    weights: tuple[WeightSource, ...] = ()
    note: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the input."""
        return self.input_shape or (1, self.input_size, self.input_size, 3)

    def published(self, precision: str, metric: str) -> tuple[Published, ...]:
        """The accuracies that were published for this file. That of another precision or input size is never taken for
        it. The catalogue's order is that of preference."""
        asked = precision, metric, self.input_size
        return tuple(one for one in self.accuracies if (one.precision, one.metric, one.input_size) == asked)
