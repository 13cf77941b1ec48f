from __future__ import annotations

from dataclasses import replace

import pytest

from ada_lightning.core.protocols.sampling import RefillProgress
from ada_lightning.methods.published.greso import AdaptiveDynamicSampling
from ada_lightning.methods.refill import DynamicSampling, NoRefill
from tests.builders import make_pool


def progress(wanted, signal, still_open, drawn):
    return RefillProgress(num_wanted=wanted, num_signal=signal, num_open=still_open, num_drawn=drawn)


@pytest.mark.parametrize("refill", [NoRefill(), DynamicSampling(), AdaptiveDynamicSampling()])
def test_all_keep_the_contract(refill):
    assert refill.first_wave(0) == 0
    assert refill.next_wave(progress(0, 0, 0, 0)) == 0


def test_a_wave_comes_as_soon_as_it_is_certain_and_not_before():
    refill = DynamicSampling(refill_ratio=0.5)
    assert refill.first_wave(8) == 8
    assert refill.next_wave(progress(8, 3, 5, 8)) == 0  # all open ones may still have a signal
    assert refill.next_wave(progress(8, 3, 4, 8)) == 4
    assert refill.next_wave(progress(8, 8, 0, 12)) == 0
    assert DynamicSampling(refill_ratio=0.0).next_wave(progress(8, 3, 4, 8)) == 1  # one at a time


def test_the_cap_ends_every_step():
    refill = DynamicSampling(oversampling=1.0, refill_ratio=1.0, max_ratio=2.5)
    drawn = refill.first_wave(8)
    waves = []
    while more := refill.next_wave(progress(8, 0, 0, drawn)):
        waves.append(more)
        drawn += more
    assert waves == [8, 4]


def test_adaptive_waves_are_what_is_missing_over_the_share_of_signals():
    refill = AdaptiveDynamicSampling(oversampling=1.5, min_ratio=0.25, slack=1.25, max_ratio=10)
    assert refill.first_wave(256) == 384
    assert refill.next_wave(progress(256, 192, 1, 384)) == 0  # not complete
    assert refill.next_wave(progress(256, 192, 0, 384)) == 160  # 64 missing at one in two, times 1.25
    assert refill.next_wave(progress(256, 250, 0, 384)) == 64  # GRESO's least
    assert refill.next_wave(progress(256, 0, 0, 384)) == 384
    assert refill.next_wave(progress(256, 0, 0, 2560)) == 0


def test_a_signal_is_in_the_reward_or_in_the_named_component_as_well():
    pool = make_pool([1.0, 0.5])
    parts = [{"correct": 1.0}, {"correct": 1.0}]
    pool.responses = [replace(r, components=c) for r, c in zip(pool.responses, parts, strict=True)]
    assert DynamicSampling().has_signal(pool)
    by_component = DynamicSampling(component="correct")
    assert not by_component.has_signal(pool)
    assert by_component.is_correct(pool)
    pool.responses[1] = replace(pool.responses[1], components={"correct": 0.0})
    assert by_component.has_signal(pool)
    pool.responses = [replace(response, reward=0.0) for response in pool.responses]
    assert not by_component.has_signal(pool)  # nothing to train on


def test_a_group_that_may_not_train_has_no_signal():
    pool = make_pool([1.0, 0.0])
    pool.responses = [replace(response, is_masked=True) for response in pool.responses]
    assert not DynamicSampling().has_signal(pool)


def test_groups_without_a_signal_are_right_or_wrong():
    assert DynamicSampling().is_correct(make_pool([1.0, 1.0]))
    assert not DynamicSampling().is_correct(make_pool([0.0, 0.0]))


def test_a_component_that_the_reward_does_not_have_gives_no_signal_and_a_reward_without_any_is_its_own():
    by_component = DynamicSampling(component="correct")
    plain = make_pool([1.0, 0.0])
    assert by_component.has_signal(plain)
    assert not by_component.has_signal(make_pool([1.0, 1.0]))
    assert by_component.is_correct(make_pool([1.0, 1.0]))
    plain.responses = [replace(response, components={"corect": response.reward}) for response in plain.responses]
    assert not by_component.has_signal(plain)
    assert not by_component.is_correct(plain)


def test_what_may_not_train_gives_no_signal_to_what_may():
    """A truncated wrong response among right ones: those that train are all alike."""
    pool = make_pool([1.0, 1.0, 0.0])
    pool.responses[2] = replace(pool.responses[2], is_masked=True)
    assert not DynamicSampling().has_signal(pool)
    parts = [{"correct": response.reward} for response in pool.responses]
    pool.responses = [
        replace(response, components=part, reward=float(index))
        for index, (response, part) in enumerate(zip(pool.responses, parts, strict=True))
    ]
    assert not DynamicSampling(component="correct").has_signal(pool)
