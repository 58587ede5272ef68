"""When outputs are wrong: steps of integers are rounding, and an accelerator's half precision is as well."""

from __future__ import annotations

import math

import numpy as np

from hasten.practices.help.outputs import Output, worst_snr_db, wrong_below_db

STORED = np.arange(-100.0, 100.0)


def test_a_few_steps_of_integers_are_rounding() -> None:
    one, near, far = (Output(STORED + off, 1.0) for off in (0, 4, 40))
    assert worst_snr_db([one], [near]) == math.inf
    assert worst_snr_db([one], [far]) < wrong_below_db([one], on_cpu=True)


def test_floats_must_be_closer_on_the_cpu() -> None:
    one = Output(STORED.astype(np.float32))
    assert wrong_below_db([one], on_cpu=True) > wrong_below_db([one], on_cpu=False)
    assert worst_snr_db([one], [Output(one.values * np.float32(1 + 1e-6))]) > wrong_below_db([one], on_cpu=True)
    assert worst_snr_db([one], [Output(one.values * np.float32(1.1))]) < wrong_below_db([one], on_cpu=False)


def test_the_worst_output_counts_and_a_missing_one_is_wrong() -> None:
    one, wrong = Output(STORED), Output(-STORED)
    assert worst_snr_db([one, one], [one, wrong]) == worst_snr_db([one], [wrong])
    assert worst_snr_db([one, one], [one]) == -math.inf
