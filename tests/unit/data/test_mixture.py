import json
from collections import Counter

import pytest

from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.data.mixture import MixtureSource
from tests.builders import jsonl_source
from tests.unit.data.test_prompt_encoder import ChatTokenizer


def numbered(path, start, stop, num_heldout=0):
    rows = [{"prompt": f"{i}", "answer": str(i)} for i in range(start, stop)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return jsonl_source(path, num_heldout=num_heldout, seed=0)


@pytest.fixture
def make(tmp_path):
    """Mixture of consecutive ranges of numbers: ``name=(start, stop, num_heldout, weight)``."""

    def make(seed=0, **parts):
        return MixtureSource(
            {
                name: {"source": numbered(tmp_path / f"{name}.jsonl", start, stop, num_heldout), "weight": weight}
                for name, (start, stop, num_heldout, weight) in parts.items()
            },
            seed=seed,
        )

    return make


def tasks(prompts):
    return Counter(prompt.task for prompt in prompts)


def test_an_epoch_has_the_shares_of_the_weights_and_every_prompt(make):
    mixture = make(large=(0, 60, 0, 3), small=(100, 105, 0, 1))
    train = mixture.train_prompts()
    assert tasks(train) == {"large": 60, "small": 5}
    epoch = mixture.epoch(train)
    # 60 prompts are three quarters: 20 entries for the five others
    assert tasks(epoch) == {"large": 60, "small": 20}
    times = Counter(prompt.prompt_id for prompt in epoch)
    assert {times[prompt.prompt_id] for prompt in train if prompt.task == "large"} == {1}
    assert {times[prompt.prompt_id] for prompt in train if prompt.task == "small"} == {4}
    mixture = make(large=(0, 60, 0, 1), small=(100, 107, 0, 9))  # the largest for its weight sets the length
    epoch = mixture.epoch(mixture.train_prompts())
    assert tasks(epoch) == {"large": 60, "small": 540}
    times = Counter(prompt.prompt_id for prompt in epoch if prompt.task == "small")
    assert Counter(times.values()) == {77: 6, 78: 1}


def test_what_occurs_once_more_is_drawn_by_the_seed(make):
    def doubled(seed):
        mixture = make(seed, a=(0, 30, 0, 1), b=(100, 120, 0, 1))
        times = Counter(prompt.prompt_id for prompt in mixture.epoch(mixture.train_prompts()))
        return {key for key, count in times.items() if count == 2}

    assert doubled(0) == doubled(0)
    assert len(doubled(0)) == len(doubled(1)) == 10
    assert doubled(0) != doubled(1)


def test_shares_hold_after_prompts_are_dropped(make):
    mixture = make(a=(8, 12, 0, 1), b=(100, 110, 0, 1))
    data = RolloutDataModule(source=mixture, prompts_per_step=20, max_prompt_tokens=3, num_steps=1, seed=0)
    with (
        pytest.warns(UserWarning, match="12 of 14 prompts are longer"),
        pytest.raises(ValueError, match="no usable training prompt is left in the sources b"),
    ):
        data.encode_prompts(ChatTokenizer())  # a frame of 2 tokens leaves room for one character
    data.max_prompt_tokens = 5
    data.encode_prompts(ChatTokenizer())
    assert tasks(data.train_prompts) == {"a": 10, "b": 10}
    assert tasks(data.step_prompts(0)) == {"a": 10, "b": 10}
    dropped = [p.prompt_id for p in mixture.train_prompts() if p.task == "b"][:8]
    data.drop_prompts(dict.fromkeys(dropped, "no number"))
    assert tasks(data.train_prompts) == {"a": 4, "b": 4}
    assert set(dropped).isdisjoint(prompt.prompt_id for prompt in data.train_prompts)
    assert "an epoch shows 8 prompts: a 4 (50.0%), b 4 (50.0%)" in data.report.text()


def test_heldout_prompts_are_interleaved_and_never_trained_on(make):
    mixture = make(a=(0, 20, 8, 1), b=(100, 120, 4, 1), only_heldout=(200, 204, 4, 0))
    heldout = mixture.heldout_prompts()
    assert tasks(heldout) == {"a": 8, "b": 4, "only_heldout": 4}
    assert tasks(heldout[:4]) == {"a": 2, "b": 1, "only_heldout": 1}
    assert tasks(mixture.train_prompts()) == {"a": 12, "b": 16}


def test_what_two_sources_share_belongs_to_the_first_and_to_heldout_before_train(make):
    mixture = make(held=(0, 5, 5, 0), a=(3, 20, 0, 1), b=(15, 30, 0, 1))
    mixture.check()
    train = mixture.train_prompts()
    assert tasks(train) == {"a": 15, "b": 10}
    assert len({prompt.prompt_id for prompt in train}) == 25
    assert mixture.notes == [
        "2 training prompts of a are held out or those of an earlier source too, and are left out",
        "5 training prompts of b are held out or those of an earlier source too, and are left out",
    ]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({}, "data.source.sources is empty"),
        ({"a": {"weight": 1}}, "data.source.sources.a needs a source and may have a weight; found weight"),
        ({"a": {"source": None, "wieght": 1}}, "found source, wieght"),
        ({"a": {"source": None, "weight": -1}}, "sources.a.weight must be a number of at least 0; got -1"),
        ({"a": {"source": None, "weight": "much"}}, "got 'much'"),
        ({"a": {"source": "gsm8k"}}, "sources.a.source is no source; it needs a _target_, such as ada_.*; got gsm8k"),
        ({"a": {"source": {"path": "b.jsonl"}}}, "sources.a.source is no source; it needs a _target_"),
        ({"a": {"source": None, "weight": 0}}, "every weight in data.source.sources is 0"),
    ],
)
def test_impossible_mixtures_are_refused_at_construction(sources, message):
    with pytest.raises(ValueError, match=message):
        MixtureSource(sources, seed=0)


def test_a_mixture_within_a_mixture_is_refused():
    within = MixtureSource({"a": {"source": object(), "weight": 3}, "b": {"source": object()}}, seed=0)
    with pytest.raises(ValueError, match=r"data\.source\.sources\.c is a mixture itself.* its weight times that of c"):
        MixtureSource({"c": {"source": within}}, seed=0)


def test_a_weight_that_makes_an_endless_epoch_is_refused(make):
    with pytest.raises(ValueError, match=r"a.weight = 1e-09 makes an epoch of 4,000,000,004 .* raise it, or use 0"):
        make(a=(0, 4, 0, 1e-9), b=(10, 12, 0, 1)).check()


def test_an_error_of_a_source_names_it(make, tmp_path):
    mixture = make(a=(0, 3, 0, 1), b=(0, 3, 0, 1))
    (tmp_path / "b.jsonl").write_text("{")
    with pytest.raises(ValueError, match=r"data\.source\.sources\.b: .*line 1: not valid JSON"):
        mixture.check()
