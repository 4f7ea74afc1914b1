"""The pictures that models are trained on: MNIST, or scikit-learn's digits where nothing but a package is at hand.

Digits are 8 by 8; enlarged three times and framed they have the 28 by 28 pixels of MNIST, so that one network fits
both. They stand in for CIFAR-10, CelebA and FMNIST as well, which cannot be had offline: all that is asked of them is
ten classes of real pictures.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.reproduce.datasets import DataSet
from dither.reproduce.experiments import Setting

from ..datasets import MNIST

SIDE = 28
_DIGITS_FOR_TRAINING = 1438


class Images(NamedTuple):
    """Pixels from 0 to 1, a row for each picture, and labels from 0 to 9."""

    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]

    def first(self, many: int) -> "Images":
        """Some of the training pictures."""
        return self._replace(train=self.train[:many], train_labels=self.train_labels[:many])


def data(setting: Setting) -> Sequence[DataSet]:
    """What a setting reads: the size of an experiment says which pictures it takes."""
    return (MNIST,) if setting["pictures"] == "mnist" else ()


def images(pictures: str) -> Images:
    """All pictures of a set: "mnist", "digits" (enlarged) or "small digits" (8 by 8)."""
    return _mnist() if pictures == "mnist" else _digits(enlarged=pictures == "digits")


@lru_cache(maxsize=1)
def _mnist() -> Images:
    found = MNIST.columns()
    order = np.random.default_rng(0).permutation(len(found["train"]))
    return Images(
        (found["train"][order] / np.float32(255)).astype(np.float32),
        found["train_labels"][order].astype(np.int64),
        (found["test"] / np.float32(255)).astype(np.float32),
        found["test_labels"].astype(np.int64),
    )


@lru_cache(maxsize=2)
def _digits(enlarged: bool) -> Images:
    from sklearn.datasets import load_digits

    pixels, labels = map(np.asarray, load_digits(return_X_y=True))
    order = np.random.default_rng(0).permutation(len(pixels))
    rows, labels = (pixels[order] / 16).astype(np.float32), labels[order].astype(np.int64)
    if enlarged:
        large = np.kron(rows.reshape(-1, 8, 8), np.ones((1, 3, 3), dtype=np.float32))
        rows = np.pad(large, ((0, 0), (2, 2), (2, 2))).reshape(len(rows), -1)
    cut = _DIGITS_FOR_TRAINING
    return Images(rows[:cut], labels[:cut], rows[cut:], labels[cut:])
