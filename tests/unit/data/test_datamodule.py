from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.parallel.ranks import Ranks
from ada_lightning.rollout.loop import Loop
from tests.builders import make_group, make_prompt

ALL = {"skip_groups_without_signal": False}


class Source:
    def train_prompts(self):
        return [make_prompt(key) for key in range(1, 8)]

    def heldout_prompts(self):
        return [make_prompt(99)]


def make_data(**options):
    defaults = {"source": Source(), "prompts_per_step": 3, "max_prompt_tokens": 8, "num_steps": 4, "seed": 0}
    data = RolloutDataModule(**{**defaults, **options})
    data.train_prompts = list(data.source.train_prompts())
    return data


class Rollout(Loop):
    """Answers with one mixed group per prompt and counts versions as an updating policy would."""

    def __init__(self, data, *, groups=None, needs_all=False):
        policy = SimpleNamespace(ranks=Ranks(), needs_groups_without_signal=needs_all, score_old=self.score_old)
        super().__init__(None, policy=policy, data=data, service=SimpleNamespace(max_staleness=0))
        self.steps, self.scored, self.version, self.groups = [], [], 0, groups
        data.connect(self)

    def collect(self, number):
        self.steps.append(number)
        prompts = self.data.step_prompts(number)
        return self.groups or [make_group([1.0, 0.0], slot=i) for i, _ in enumerate(prompts)], self.version

    def score_old(self, batch):
        self.scored.append(batch)
        return batch


def ids(prompts):
    return [prompt.prompt_id for prompt in prompts]


def test_every_epoch_shows_every_prompt_once_in_another_order_that_the_seed_decides():
    data = make_data()
    seen = [prompt for step in range(7) for prompt in ids(data.step_prompts(step))]  # steps across ends of epochs
    assert sorted(seen[:7]) == sorted(seen[7:14]) == sorted(seen[14:]) == [f"p{key}" for key in range(1, 8)]
    assert seen[:7] != seen[7:14]
    assert ids(make_data(prompts_per_step=20).step_prompts(0)) == seen[:20]
    assert ids(make_data(prompts_per_step=7, seed=1).step_prompts(0)) != seen[:7]


def test_a_rollout_is_collected_when_its_batch_is_asked_for_and_not_before():
    data = make_data()
    rollout = Rollout(data)
    stream = iter(data.train_dataloader())
    assert rollout.steps == []
    for version in range(4):
        rollout.version = version
        batch = next(stream)
        assert batch.policy_version == version
        assert rollout.steps == list(range(version + 1))


def test_every_epoch_trains_on_the_same_minibatches_against_the_same_old_logprobs():
    data = make_data(num_minibatches=3, epochs_per_rollout=2)
    rollout = Rollout(data)
    batches = list(data.train_dataloader())
    assert len(batches) == len(data.train_dataloader()) == 24
    assert rollout.steps == [0, 1, 2, 3]
    assert len(rollout.scored) == 12  # once per minibatch, before the first update with it
    assert [batch.update_index for batch in batches[:6]] == [0, 1, 2, 3, 4, 5]
    assert [batch.updates_since_rollout for batch in batches[:6]] == [0, 1, 2, 3, 4, 5]
    for first, second in zip(batches[:3], batches[3:6], strict=True):
        assert first.microbatches is second.microbatches
        assert first.has_old_logprobs
        assert second.has_old_logprobs


def test_a_rollout_resumed_in_its_second_epoch_makes_the_updates_that_are_left():
    data = make_data(epochs_per_rollout=3)
    rollout = Rollout(data)
    data.load_state_dict({"num_updates_done": 8, "num_minibatches": 1, "epochs_per_rollout": 3})
    batches = list(data.train_dataloader())
    assert rollout.steps == [2, 3]
    assert [batch.update_index for batch in batches] == [2, 0, 1, 2]
    with pytest.raises(ValueError, match=r"data\.epochs_per_rollout = 1, but this run has counted .* with 3"):
        make_data().load_state_dict({"num_updates_done": 8, "num_minibatches": 1, "epochs_per_rollout": 3})


def test_a_resumed_stream_continues_where_the_updates_ended():
    data = make_data(num_minibatches=3)
    rollout = Rollout(data)
    data.load_state_dict({"num_updates_done": 7, "num_minibatches": 3, "epochs_per_rollout": 1})
    batches = list(data.train_dataloader())
    assert len(data.train_dataloader()) == len(batches) == 5
    assert rollout.steps == [2, 3]
    assert [batch.update_index for batch in batches] == [1, 2, 0, 1, 2]
    assert [batch.updates_since_rollout for batch in batches] == [0, 1, 0, 1, 2]
    state = data.state_dict()
    assert state.pop("prompts")["num_train"] == 7
    assert state == {"num_updates_done": 7, "num_minibatches": 3, "epochs_per_rollout": 1}


def test_a_resume_with_other_prompts_says_so_in_one_line():
    state = make_data().state_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_data().load_state_dict(state)
        state_of_old = {name: value for name, value in state.items() if name != "prompts"}
        make_data().load_state_dict(state_of_old)
    fewer, dated = make_data(), make_data()
    del fewer.train_prompts[2]
    with pytest.warns(
        UserWarning, match="with different prompts than it began with: 6 training prompts, 7 then; rows were"
    ):
        fewer.load_state_dict(state)
    dated.train_prompts = [replace(prompt, prompt_ids=(*prompt.prompt_ids, 3)) for prompt in dated.train_prompts]
    with pytest.warns(UserWarning, match="the same texts become different tokens, because of another template or one"):
        dated.load_state_dict(state)
    other = make_data()
    other.heldout_prompts = [make_prompt(5)]
    with pytest.warns(UserWarning, match="different held-out prompts, so evaluations"):
        other.load_state_dict(state)


@pytest.mark.parametrize(
    ("max_staleness", "num_done", "is_said"), [(1, 7, True), (0, 7, False), (1, 6, False)], ids=str
)
def test_a_checkpoint_without_the_old_logprobs_it_needs_says_so_in_one_line(max_staleness, num_done, is_said):
    """As versions of before wrote them; without a lag the policy of now draws the rollout again and is the old one."""
    data = make_data(num_minibatches=3)
    data._max_staleness = max_staleness
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data.load_state_dict({"num_updates_done": num_done, "num_minibatches": 3, "epochs_per_rollout": 1})
    assert [str(warning.message).partition(",")[0] for warning in said] == is_said * [
        "this checkpoint was saved between two updates of a rollout"
    ]


def test_a_position_that_does_not_fit_the_settings_is_refused():
    with pytest.raises(ValueError, match=r"num_minibatches = 1, but this run has counted its updates with 3"):
        make_data().load_state_dict({"num_updates_done": 3, "num_minibatches": 3, "epochs_per_rollout": 1})
    with pytest.raises(ValueError, match="this run is complete: 5 of num_steps = 4 steps"):
        make_data().load_state_dict({"num_updates_done": 5, "num_minibatches": 1, "epochs_per_rollout": 1})
    data, told = make_data(), []  # killed after its last update
    data.connect(None, when_complete=lambda: told.append(True))
    assert len(data.train_dataloader()) == 4
    assert not told
    data.load_state_dict({"num_updates_done": 4, "num_minibatches": 1, "epochs_per_rollout": 1})
    assert len(data.train_dataloader()) == 0
    assert told


@pytest.mark.parametrize(("options", "needs_all", "num_documents"), [({}, False, 1), ({}, True, 2), (ALL, False, 2)])
def test_groups_without_signal_are_left_out_unless_they_are_wanted_or_needed(options, needs_all, num_documents):
    data = make_data(prompts_per_step=2, num_steps=1, **options)
    groups = [make_group([1.0, 0.0], slot=0), make_group([0.0, 0.0], slot=1)]
    Rollout(data, groups=groups, needs_all=needs_all)
    (batch,) = data.train_dataloader()
    assert sum(len(microbatch.document_lengths) for microbatch in batch) == num_documents
    assert batch.counts.num_prompts == 2


def test_what_cannot_work_is_said():
    with pytest.raises(RuntimeError, match=r"add callbacks\.adaptive_sampling"):
        next(iter(make_data().train_dataloader()))
    with pytest.raises(ValueError, match=r"prompts_per_step must be at least 1; got 0; .*num_steps must .* got -1"):
        make_data(prompts_per_step=0, num_steps=-1)
    with pytest.raises(ValueError, match="epochs_per_rollout must be at least 1; got 0"):
        make_data(epochs_per_rollout=0)
    with pytest.raises(ValueError, match=r"num_minibatches = 4 exceeds data\.prompts_per_step = 3"):
        make_data(num_minibatches=4)
