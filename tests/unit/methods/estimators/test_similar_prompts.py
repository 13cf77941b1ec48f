from __future__ import annotations

import io
import json
import math
import re

import numpy as np
import pytest
import torch

from ada_lightning.core.protocols import PromptEmbedding, Trait
from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators import BetaHistory, PolicyEmbedding, SimilarPrompts, WordEmbedding
from ada_lightning.methods.estimators.binomial_process import beta_of_logit, fit_laplace, fit_moments
from tests.builders import make_pool, make_prompt


def never(prompts):
    raise AssertionError("no policy is needed")


class Placed(PromptEmbedding):
    """Rows as a function of the prompts' numbers; keeps how many prompts it was asked about at a time."""

    def __init__(self, row, *, rows_are_independent=False):
        self.row, self.rows_are_independent, self.sizes = row, rows_are_independent, []

    def __call__(self, prompts, represent):
        self.sizes.append(len(prompts))
        return torch.stack([self.row(int(prompt.prompt_id[1:])) for prompt in prompts])


def kinds(**options):
    """Prompts 100 to 199 lie together, and so on."""
    return Placed(lambda key: torch.eye(8)[key // 100], **options)


def estimator(*, train=range(100, 500, 20), **settings):
    known = SimilarPrompts(**({"embedding": kinds()} | settings))
    known.check_prompts([make_prompt(key) for key in train])
    return known


def visit(known, outcomes):
    known.update(
        [make_pool([1.0] * right + [0.0] * (size - right), key=key) for key, (right, size) in outcomes.items()]
    )


def means(known, *keys):
    return [belief.mean for belief in known.predict([make_prompt(key) for key in keys], never)]


def test_before_anything_was_seen_any_prompt_can_be_asked_about_and_its_pass_rate_is_anything():
    """A logit of variance 4 + 1 + 4 + 4: more often above 0.95 or below 0.05 than between 0.1 and 0.9."""
    known = estimator()
    assert known.remembers_prompts
    assert Trait.SHARES_EVIDENCE in known.traits
    assert known.recall([]) == []
    (belief,) = known.recall([make_prompt(100)])
    assert belief.mean == pytest.approx(0.5)
    assert belief.alpha + belief.beta < 1
    assert not belief.is_seen


@pytest.mark.parametrize("without", [None, "drift_scale", "similar_scale", "own_scale"])
def test_beliefs_are_those_of_the_stated_covariance(without):
    """A base, a drift of all, and what like prompts share and each has for itself, both fading with visits."""
    scales = {"base_scale": 2.0, "drift_scale": 1.5, "similar_scale": 1.2, "own_scale": 0.8}
    scales |= {} if without is None else {without: 0.0}
    known = estimator(**scales, drift_visits=5.0, prompt_drift_visits=9.0, scale_width=0.0)
    steps = {0: {100: (3, 4), 200: (0, 4)}, 2: {101: (4, 4), 100: (1, 4), 300: (2, 4)}, 5: {200: (1, 4)}}
    for outcomes in steps.values():
        visit(known, outcomes)
    middle = np.eye(8)[1:5].mean(axis=0)
    base, drift, similar, own = (scale**2 for scale in scales.values())

    def covariance(first, second):
        (key, time), (other, other_time) = first, second
        places = [(np.eye(8)[each // 100] - middle) / np.sqrt(0.75) for each in (key, other)]  # at a distance of 1
        fading = math.exp(-abs(time - other_time) / 9.0)
        differing = similar * places[0] @ places[1] + own * (key == other)
        return base + drift * math.exp(-abs(time - other_time) / 5.0) + differing * fading

    visits = [(key, time) for time, outcomes in steps.items() for key in outcomes]
    asked = [(key, 6) for key in (100, 150, 200, 250, 400)]
    counts = np.array([count for outcomes in steps.values() for count in outcomes.values()], dtype=float).T
    between = np.array([[covariance(one, other) for other in visits] for one in visits])
    across = np.array([[covariance(one, other) for other in visits] for one in asked])
    fit = fit_moments(between, *counts, start=fit_laplace(between, *counts)[0].sites)
    expected = beta_of_logit(*fit.predicted(across, np.array([covariance(one, one) for one in asked])))
    found = known.recall([make_prompt(key) for key, _ in asked])
    # of a fixed point a hundredth of a logit is asked
    assert [belief.mean for belief in found] == pytest.approx(expected[0] / sum(expected), abs=0.005)
    assert [belief.alpha + belief.beta for belief in found] == pytest.approx(sum(expected), rel=0.05)


def test_how_much_prompts_differ_is_found_from_what_they_did():
    """Every prompt is always right or always wrong, or all are right half of the time; both begin in the middle."""
    rng = np.random.default_rng(0)

    def believed(right_of, **settings):
        known = estimator(**settings)
        for step in range(20):
            visit(known, {100 + 8 * step + place: (right_of(), 4) for place in range(8)})
        visit(known, {262: (4, 4)})
        return means(known, 262, 263)

    def sure():
        return int(rng.choice([0, 4]))

    def unsure():
        return int(rng.binomial(4, 0.5))

    assert believed(sure)[0] > 0.8
    assert believed(unsure)[0] < 0.7
    assert believed(unsure, scale_width=0.0)[0] > 0.8
    assert believed(sure)[1] == pytest.approx(0.5, abs=0.1)  # others tell nothing


@pytest.mark.parametrize(("positives", "size"), [(6, 16), (4, 4), (0, 4), (0, 1)])
def test_the_posterior_of_one_prompt_is_that_of_a_grid(positives, size):
    """The exact posterior of a logit of variance 4 + 1 + 4 + 2.25, by brute force.

    It is skewed, and a normal one is not: after four right answers of four 0.910 for 0.921. Laplace's has 0.864.
    """
    known = estimator(own_scale=1.5)  # prompts of four kinds: each lies as far from their middle as any
    visit(known, {100: (positives, size)})
    (belief,) = known.predict([make_prompt(100)], never)
    logits = np.linspace(-15, 15, 20001)
    variance = 2.0**2 + 1.0 + 2.0**2 + 1.5**2
    weight = np.exp(-(logits**2) / (2 * variance) + positives * logits - size * np.logaddexp(0, logits))
    rate = 1 / (1 + np.exp(-logits))
    mean = (weight * rate).sum() / weight.sum()
    spread = (weight * (rate - mean) ** 2).sum() / weight.sum()
    assert belief.mean == pytest.approx(mean, abs=0.012)
    expected = belief.alpha * belief.beta / ((belief.alpha + belief.beta) * (belief.alpha + belief.beta + 1))
    assert expected == pytest.approx(mean * (1 - mean) - spread, rel=0.1)  # of p (1 - p), by which prompts are chosen
    if 0 < positives < size:  # the drift has moved on by one visit, which costs little
        assert belief.alpha + belief.beta == pytest.approx(mean * (1 - mean) / spread - 1, rel=0.1)


@pytest.mark.long
def test_beliefs_are_calibrated_in_a_world_made_by_its_own_assumptions():
    """Prompts of kinds, an effect of their own, and a policy that learns: what it says happens as often as it says."""
    rng = np.random.default_rng(5)
    kinds, own = rng.normal(0, 1.5, 8), rng.normal(0, 1.5, 800)
    known = estimator()
    said, drawn = [], []
    for step in range(40):
        keys = rng.choice(800, 16, replace=False)
        rates = 1 / (1 + np.exp(-(-1.5 + 0.06 * step + kinds[keys // 100] + own[keys])))
        right = rng.binomial(4, rates)
        if step >= 5:
            said += means(known, *keys.tolist())
            drawn += (right / 4).tolist()
        visit(known, {int(key): (int(count), 4) for key, count in zip(keys, right, strict=True)})
    order = np.argsort(said)
    for part in np.array_split(order, 4):  # 140 visits each: a standard deviation of 0.03 at most
        assert np.mean(np.array(said)[part]) == pytest.approx(np.mean(np.array(drawn)[part]), abs=0.08)
    assert np.corrcoef(said, drawn)[0, 1] > 0.5


def test_beliefs_rest_on_the_latest_visits_alone():
    known, fresh = estimator(num_visits=4), estimator(num_visits=4)
    visit(known, {100: (4, 4), 101: (4, 4)})
    for other in (known, fresh):
        visit(other, {200: (0, 4), 201: (1, 4), 202: (0, 4), 203: (0, 4)})
    assert means(known, 100, 200, 203) == pytest.approx(means(fresh, 100, 200, 203))
    asked = [make_prompt(key) for key in (100, 200, 300)]
    assert [belief.is_seen for belief in known.recall(asked)] == [True, True, False]


def test_a_prompt_with_two_pools_counts_once_with_both_and_without_evidence_not_at_all():
    twice, once = estimator(), estimator()
    twice.update([make_pool([0.0, 1.0], key=100), make_pool([1.0], key=100, slot=1), make_pool([], key=300)])
    visit(once, {100: (2, 3)})
    assert means(twice, 100, 200, 300) == means(once, 100, 200, 300)
    assert twice.history_counts() == {"p100": (2.0, 3.0)}
    assert twice.predict([make_prompt(100)], never)[0].num_seen == 0


def test_counts_for_a_later_run_fade_as_those_of_beta_history():
    known, counts = estimator(num_visits=2), BetaHistory()
    for outcomes in ({100: (2, 4), 101: (0, 4)}, {100: (4, 4), 200: (1, 4), 201: (3, 4)}, {100: (0, 4)}):
        visit(known, outcomes)
        visit(counts, outcomes)
    assert known.history_counts() == pytest.approx(dict(counts.history_counts()))


def reloaded(known, other):
    """What another one believes that was given the state of the first, through a file."""
    file = io.BytesIO()
    torch.save(known.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    return other


@pytest.mark.parametrize("num_steps", [0, 1, 3, 9])
def test_a_resumed_run_believes_the_same_bit_by_bit(num_steps):
    first = estimator(num_visits=8)
    for step in range(num_steps):
        visit(first, {100 * kind + step: (kind % 4, 4) for kind in range(1, 5)})
    if num_steps == 9:
        assert first.state_dict()["scales"]["prior"] != estimator().state_dict()["scales"]["prior"]  # a search went on
    second = reloaded(first, estimator(num_visits=8))
    keys = (100, 101, 107, 200, 300)
    assert means(first, *keys) == means(second, *keys)
    assert first.history_counts() == second.history_counts()
    for known in (first, second):
        visit(known, {107: (1, 4), 200: (2, 4)} | dict.fromkeys(range(120, 128), (4, 4)))  # with a trial or two
    assert means(first, *keys) == means(second, *keys)
    assert first.state_dict()["scales"] == second.state_dict()["scales"]


@pytest.mark.parametrize(("own", "size"), [({"num_visits": 2}, 2), ({"own_scale": 6.0}, 4), ({"scale_width": 0.0}, 4)])
def test_other_settings_hold_from_the_resume_on(own, size):
    """Fewer visits or other scales: what is believed is what one with these settings believes of the same visits."""
    shown = [{100 * kind + step: (kind % 4, 4) for kind in range(1, 5)} for step in range(4)]
    first, fresh = estimator(num_visits=4), estimator(**{"num_visits": 4, "scale_width": 0.0} | own)
    for outcomes in shown:
        visit(first, outcomes)
        visit(fresh, outcomes)
    resumed = reloaded(first, estimator(**{"num_visits": 4} | own))
    assert len(resumed.state_dict()["visits"]) == size
    if "num_visits" not in own:  # the scales found hold where those given are the same
        assert means(resumed, 100, 103, 200) == pytest.approx(means(fresh, 100, 103, 200), abs=0.01)
    visit(resumed, {101: (2, 4)})


SUMS = [
    Prompt(f"{index}", ({"role": "user", "content": f"What is {index} {sign} 3?"},))
    for index, sign in enumerate("+-+-+-")
]


def of_words(prompts):
    known = SimilarPrompts(embedding=WordEmbedding())
    known.check_prompts(prompts)
    return known


def test_a_process_that_was_shown_no_prompts_takes_the_state_as_it_is():
    """Only the leading process of several is shown them."""
    first = estimator()
    visit(first, {100: (3, 4), 200: (0, 4)})
    follower = reloaded(first, SimilarPrompts(embedding=kinds()))
    assert means(follower, 100, 150, 300) == means(first, 100, 150, 300)


@pytest.mark.parametrize("kept", [SUMS[:4], []])
def test_where_rows_mean_something_else_visits_are_embedded_anew_and_those_of_prompts_that_are_gone_forgotten(kept):
    first = of_words(SUMS)
    first.learn([(SUMS[0], 4, 4), (SUMS[1], 0, 4), (SUMS[5], 4, 4)])
    spellings = [Prompt(name, ({"role": "user", "content": f"Spell {name}."},)) for name in ("x", "y y")]
    others = [*spellings, *kept]
    expected = of_words(others)
    if kept:
        expected.learn([(SUMS[0], 4, 4), (SUMS[1], 0, 4)])
        expected._time = 3
    with pytest.warns(RuntimeWarning, match=f"of its 3 visits {1 if kept else 3} are forgotten, those of prompts that"):
        second = reloaded(first, of_words(others))
    for found, wanted in zip(second.predict(others, never), expected.predict(others, never), strict=True):
        assert (found.alpha, found.beta) == pytest.approx((wanted.alpha, wanted.beta), rel=1e-6)
    assert second.history_counts() == first.history_counts()


def test_rows_that_depend_on_no_others_are_made_at_once_and_only_once():
    asked = [make_prompt(key) for key in (100, 200, 300, 100)]
    for are_independent, sizes in ((False, [1, 1, 1]), (True, [3])):
        embedding = kinds(rows_are_independent=are_independent)
        known = SimilarPrompts(embedding=embedding)
        known.predict(asked, never)
        known.predict(asked[:2], never)
        assert embedding.sizes == sizes


def test_words_tell_prompts_apart_that_were_never_seen_and_a_resumed_run_reads_them_as_before():
    known = of_words(SUMS)
    known.learn([(SUMS[0], 4, 4), (SUMS[1], 0, 4), (SUMS[2], 3, 4)])
    plus, minus = (belief.mean for belief in known.predict(SUMS[4:6], never))
    assert plus > minus + 0.2
    assert reloaded(known, of_words(SUMS)).predict(SUMS, never) == known.predict(SUMS, never)


def from_history(tmp_path, counts, **settings):
    path = tmp_path / "history.json"
    path.write_text(json.dumps({f"p{key}": row for key, row in counts.items()}))
    return estimator(history_file=str(path), **settings)


def test_known_pass_rates_are_visits_before_the_first_step(tmp_path):
    """They tell apart prompts that the file does not know, too; 120, 140, ... are training prompts, 999 is none."""
    known = from_history(tmp_path, {120: [3.5, 4.5], 140: [4, 4], 220: [0, 4], 240: [0, 0], 999: [4, 4]})
    seen = estimator()
    seen.learn([(make_prompt(120), 3.5, 4.5), (make_prompt(140), 4, 4), (make_prompt(220), 0, 4)])
    seen._time = 0
    assert means(known, 120, 160, 240, 300) == means(seen, 120, 160, 240, 300)
    assert known.history_counts() == {
        "p120": (3.5, 4.5),
        "p140": (4, 4),
        "p220": (0, 4),
        "p240": (0, 0),
        "p999": (4, 4),
    }
    assert [belief.is_seen for belief in known.recall([make_prompt(120), make_prompt(160)])] == [True, False]


def test_of_more_known_prompts_than_it_remembers_it_takes_some_of_all_kinds_and_says_so(tmp_path, capsys):
    known = from_history(tmp_path, {key: [4 * (key < 300), 4] for key in range(100, 500, 20)}, num_visits=4)
    easy, hard = means(known, 110, 410)
    assert easy > 0.6
    assert hard < 0.4
    from_history(tmp_path, {100: [1, 4], 120: [1, 4], 140: [1, 4]}, num_visits=2)
    out = capsys.readouterr().out
    assert re.search("3 of 20 training prompts known .*; the others are predicted from them\n", out)
    assert "history: 2 of them are taken (estimator.num_visits), evenly spread\n" in out


def test_a_prompt_that_a_mixture_repeats_is_known_once(tmp_path):
    known = from_history(tmp_path, {100: [0, 4], 200: [2, 4]}, train=(100, 200, 300, 100, 100))
    assert len(known.state_dict()["visits"]) == 2


def test_scales_are_found_from_a_history_and_kept_over_a_resume(tmp_path):
    counts = {key: [4 * (key // 20 % 2), 4] for key in range(100, 500, 20)}
    first = from_history(tmp_path, counts)
    assert first.state_dict()["scales"]["prior"] != first.state_dict()["scales"]["start"]
    visit(first, {100: (4, 4), 200: (1, 4)})
    second = reloaded(first, from_history(tmp_path, counts))
    for known in (first, second):
        visit(known, dict.fromkeys(range(100, 300, 10), (2, 4)))
    assert means(first, 100, 150, 300) == means(second, 100, 150, 300)


def test_a_resumed_run_goes_on_with_its_own_visits_and_not_with_the_file(tmp_path):
    first = estimator()
    visit(first, {100: (4, 4)})
    second = reloaded(first, from_history(tmp_path, {120: [0, 4]}))
    assert means(second, 100, 120) == means(first, 100, 120)
    assert second.history_counts() == first.history_counts()


def test_prompts_whose_rows_differ_by_rounding_alone_are_all_alike():
    known = estimator(embedding=Placed(lambda key: torch.tensor([1.0 + 1e-7 * (key % 7)])))
    visit(known, {100: (4, 4), 101: (0, 4)})
    assert means(known, 203) == pytest.approx(means(known, 204), abs=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_visits": 0}, "estimator.num_visits must be at least 1; got 0"),
        ({"drift_visits": 0.0}, "estimator.drift_visits must be positive and finite; got 0.0"),
        ({"base_scale": math.inf}, "estimator.base_scale must be above 0, and at most 10; got inf"),
        ({"prompt_drift_visits": 0.0}, "estimator.prompt_drift_visits must be positive; got 0.0"),
        ({"scale_width": -0.5}, r"scale_width must be 0 \(scales as given\) or from 0.01 to 100; got -0.5"),
        ({"scale_width": 1e-170}, "scale_width must be 0 .* got 1e-170"),
        ({"own_scale": -1.0}, r"estimator.own_scale must be from 0 \(none\) to 10; got -1.0"),
        ({"similar_scale": math.nan}, "estimator.similar_scale must be from 0 .* got nan"),
        ({"drift_scale": 11.0, "num_visits": -1}, "num_visits must be at least 1; got -1; .*drift_scale must be .* 11"),
        ({"history_file": "none.json", "num_visits": 0}, "num_visits must .*; estimator.history_file none.json cannot"),
        ({"embedding": PolicyEmbedding()}, "without the policy; use estimator/embedding=words or sent"),
    ],
)
def test_settings_that_cannot_work_are_rejected(change, message):
    with pytest.raises(ValueError, match=message):
        estimator(**change)


class Asks(PromptEmbedding):
    def __call__(self, prompts, represent):
        return represent(prompts)


@pytest.mark.parametrize(
    ("embedding", "message"),
    [
        (Asks(), "must embed candidates without the policy"),
        (Placed(lambda key: torch.tensor(0.0)), r"shape \(1,\) for 1 prompt"),
        (Placed(lambda key: torch.full((2,), torch.nan)), "not finite"),
        (Placed(lambda key: torch.zeros(key // 20)), "embeddings of 6 numbers, those of earlier prompts have 5"),
    ],
)
def test_embeddings_that_cannot_be_used_are_errors_before_a_step_is_drawn(embedding, message):
    with pytest.raises(ValueError, match=message):
        estimator(embedding=embedding)
