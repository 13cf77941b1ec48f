from __future__ import annotations

import math
from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ada_lightning.methods.curriculum import DifficultyBand, Learnability, PosteriorSampling
from tests.unit.methods.curriculum.histories import ids, prompts, recalled

band, posterior = DifficultyBand, partial(PosteriorSampling, usefulness=Learnability())
both = pytest.mark.parametrize("make", [band, posterior], ids=["band", "posterior"])


def chosen_by(curriculum, listed, size, step, known, seed=0):
    return ids(curriculum.choose(listed, size, step=step, seed=seed, recall=recalled(known)))


cases = {
    "make": st.sampled_from([band, posterior]),
    "total": st.integers(1, 40),
    "size": st.integers(1, 50),
    "candidate_ratio": st.floats(2.0, 8.0),
    "revisit_ratio": st.floats(0.0, 1.0),
    "step": st.integers(0, 200),
    "seed": st.integers(0, 3),
    "known": st.dictionaries(st.integers(0, 39).map(lambda index: f"p{index}"), st.floats(0.01, 0.99)),
}


@given(**cases)
def test_a_step_is_full_holds_no_prompt_twice_while_there_are_enough_and_follows_from_step_seed_and_history(
    make, total, size, candidate_ratio, revisit_ratio, step, seed, known
):
    ratios = {"candidate_ratio": candidate_ratio, "revisit_ratio": revisit_ratio}
    first, again = (chosen_by(make(**ratios), prompts(total), size, step, known, seed) for _ in range(2))
    assert first == again
    counts = Counter(first)
    assert len(first) == size
    assert max(counts.values()) == math.ceil(size / total)
    if size >= total:
        assert len(counts) == total
        assert min(counts.values()) == size // total


@both
def test_copies_of_a_prompt_do_not_fill_a_step(make):
    """A mixture lists the prompts of a small source several times; the best of them would come as often in one step."""
    listed = [*prompts(20), *prompts(2) * 10]
    curriculum = make(candidate_ratio=5.0, revisit_ratio=0.0)
    for step in range(10):
        asked: list[str] = []

        def recall(some, asked=asked):
            asked += ids(some)
            return recalled({"p0": 0.5, "p1": 0.5, "p9": 0.99})(some)

        chosen = ids(curriculum.choose(listed, 4, step=step, seed=0, recall=recall))
        assert len(set(chosen)) == 4
        assert len(set(asked)) == len(asked) <= 20  # candidates alone


@given(
    make=cases["make"],
    total=st.integers(2, 30),
    num_copies=st.integers(2, 10),
    size=st.integers(1, 12),
    revisit_ratio=st.floats(0.0, 1.0),
    step=st.integers(0, 200),
)
def test_nor_do_those_that_come_in_turn(make, total, num_copies, size, revisit_ratio, step):
    """All prompts are candidates here, so a step can be filled without a copy wherever there are enough prompts."""
    listed = prompts(total) * num_copies
    curriculum = make(candidate_ratio=30.0 * total, revisit_ratio=revisit_ratio)
    chosen = chosen_by(curriculum, listed, size, step, {"p0": 0.5})
    assert len(chosen) == size
    assert len(set(chosen)) == min(size, total)


@given(
    make=cases["make"],
    total=st.integers(2, 40),
    size=st.integers(1, 8),
    revisit_ratio=st.floats(0.05, 1.0),
    start=st.integers(0, 300),
    seed=cases["seed"],
)
def test_every_prompt_is_visited_in_time_whatever_is_believed_of_it(make, total, size, revisit_ratio, start, seed):
    """p0 is believed to be hopeless, and everything else ideal."""
    known = {f"p{index}": 0.5 for index in range(total)} | {"p0": 1e-6}
    curriculum = make(revisit_ratio=revisit_ratio)
    in_time = math.ceil(2 * total / (revisit_ratio * size)) + 1
    steps = range(start, start + in_time)
    assert any("p0" in chosen_by(curriculum, prompts(total), size, step, known, seed) for step in steps)


@both
def test_no_prompt_comes_more_often_or_more_rarely_than_stated(make):
    """100 steps are 25 whole walks of the candidates (15 of 60 a step) and one of the revisits (0.6 of 60)."""
    known = {f"p{index}": 1e-6 for index in range(60)} | {"p7": 0.5}
    curriculum = make(candidate_ratio=2.5, revisit_ratio=0.1)
    counts = Counter(name for step in range(100) for name in chosen_by(curriculum, prompts(60), 6, step, known))
    assert 25 <= counts["p7"] <= 26  # uniform order: 10
    assert min(counts.values()) >= 1
    assert len(counts) == 60
    assert f"0.1 to {2.5 + 0.1:g} times" in curriculum.caveat()


@both
def test_the_share_in_turn_is_met_exactly_and_nothing_else_reaches_the_hopeless(make):
    """Every candidate list of 40 holds far more than 10 ideal prompts; a walk of the revisits takes 200 steps."""
    hopeless = {f"p{index}": 1e-9 for index in range(8)}
    known = {f"p{index}": 0.5 for index in range(200)} | hopeless

    def visits(curriculum):
        return Counter(name for step in range(200) for name in chosen_by(curriculum, prompts(200), 10, step, known))

    counts = visits(make(revisit_ratio=0.1))
    assert {name: counts[name] for name in hopeless} == dict.fromkeys(hopeless, 1)
    assert hopeless.keys().isdisjoint(visits(make(revisit_ratio=0.0)))


def test_the_order_within_a_step_tells_nothing():
    """A preview that takes the first prompts of a step must not see the best of them."""
    known = {f"p{index}": 0.5 if index < 20 else 0.01 for index in range(40)}
    places = Counter()
    for step in range(300):
        chosen = chosen_by(band(revisit_ratio=0.5), prompts(40), 8, step, known)
        places.update(place for place, prompt_id in enumerate(chosen) if int(prompt_id[1:]) >= 20)
    # about 2 of 8 places of 300 steps: 75 each with a standard deviation below 8
    assert max(places.values()) - min(places[place] for place in range(8)) < 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidate_ratio": 1.5}, r"candidate_ratio must be at least 2 and finite, .*; got 1.5"),
        ({"candidate_ratio": math.inf}, r"candidate_ratio must be at least 2 and finite, .*; got inf"),
        ({"candidate_ratio": math.nan}, r"candidate_ratio must be at least 2 and finite, .*; got nan"),
        ({"revisit_ratio": -0.1}, r"revisit_ratio must be in \[0, 1\]; got -0.1"),
        ({"revisit_ratio": 2, "candidate_ratio": 0}, r"candidate_ratio .* got 0; curriculum.revisit_ratio .* got 2"),
    ],
)
@both
def test_ratios_out_of_range_are_refused(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)
