"""The embedded default: a small trained image classifier and its labeled images, made by `scripts/make_demo.py`.

digits.tflite            a network in the manner of MobileNetV2 and V3, float32, about 100 million multiply-accumulates.
                         Signature `serving_default`: `image` [1, 96, 96, 1], raw gray values 0..255 as float32, gives
                         `scores` [1, 10], a probability for each digit. It names 99.17 % of the test images rightly.
digits.npz               600 test images that training never saw: `x` uint8 [600, 96, 96, 1], `y` int64 [600].
digits_calibration.npz   100 of the training images, in the same form, for quantizing.

The images are the handwritten digits that come with scikit-learn, enlarged from 8 by 8 pixels: a part of "Optical
Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, UCI Machine Learning Repository (1998),
https://doi.org/10.24432/C50P49, licensed CC BY 4.0.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent

MODEL = _FOLDER / "digits.tflite"
DATA = _FOLDER / "digits.npz"
CALIBRATION = _FOLDER / "digits_calibration.npz"
