"""The architectures of the catalogue, a generator for each family: tables of layers in, operators out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from hasten.practices.choose.catalogue.families.detection import (
    ssd_mobilenet_v1,
    ssdlite_mobilenet_v2,
    ssdlite_mobilenet_v3,
)
from hasten.practices.choose.catalogue.families.efficientnet import efficientnet, efficientnet_lite, mnasnet
from hasten.practices.choose.catalogue.families.mobilenet import mobilenet_v1, mobilenet_v2, mobilenet_v3, yamnet
from hasten.practices.choose.catalogue.families.nasnet import nasnet_mobile
from hasten.practices.choose.catalogue.families.resnet import resnet_50
from hasten.practices.choose.catalogue.families.segmentation import deeplab_mobilenet_v2, lraspp_mobilenet_v3
from hasten.practices.choose.catalogue.families.squeezenet import squeezenet

if TYPE_CHECKING:
    from hasten.model.build import ModelBuilder
    from hasten.model.build_graph import Value
    from hasten.practices.choose.catalogue.entry import Settings

__all__ = ["FAMILIES"]


class Family(Protocol):
    """Draws a model of these settings on the input `x`, and returns its outputs by name."""

    def __call__(self, g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
        """Draw the model."""


FAMILIES: Final[dict[str, Family]] = {
    "deeplab_mobilenet_v2": deeplab_mobilenet_v2,
    "efficientnet": efficientnet,
    "efficientnet_lite": efficientnet_lite,
    "lraspp_mobilenet_v3": lraspp_mobilenet_v3,
    "mnasnet": mnasnet,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3,
    "nasnet_mobile": nasnet_mobile,
    "resnet_50": resnet_50,
    "squeezenet": squeezenet,
    "ssd_mobilenet_v1": ssd_mobilenet_v1,
    "ssdlite_mobilenet_v2": ssdlite_mobilenet_v2,
    "ssdlite_mobilenet_v3": ssdlite_mobilenet_v3,
    "yamnet": yamnet,
}
