"""A step that was decided before its turn is restored with what was known then, and not with what the run knows now."""

import pytest
import torch

from ada_lightning.core.prepared_step import PreparedStep
from ada_lightning.core.records import Belief, Prompt
from ada_lightning.methods.hints import PrefixHints
from ada_lightning.methods.published.sage import TextHints
from ada_lightning.methods.sampling import UniformSampler

PROMPTS = tuple(Prompt(name, ({"role": "user", "content": name},)) for name in "ab")
THEN = {"progress": {"a": [2, 3, [0, 1, 1], False]}, "counts": {"2/3": [1, 4]}, "num_groups": 1, "unreached": []}
NOW = {"progress": {"a": [1, 2, [0, 1, 3], True]}, "counts": {"2/3": [7, 8]}, "num_groups": 9, "unreached": ["a"]}


def with_state(part, state):
    part.load_state_dict(state)
    return part


@pytest.mark.parametrize("hints", [PrefixHints, TextHints])
def test_hints_are_those_of_then(hints):
    prepared = PreparedStep(
        step=3, policy_version=2, prompts=PROMPTS, beliefs=(Belief(), Belief(2.0, 5.0, num_seen=6, is_seen=True)),
        sampler=UniformSampler(group_size=4), figures={"pass_rate": 0.25}, hints=with_state(hints(), THEN),
        representations=torch.ones(2, 3),
    )  # fmt: skip
    now = with_state(hints(), NOW)
    restored = PreparedStep.from_plain(
        prepared.to_plain(), prompts=PROMPTS[::-1], sampler=UniformSampler(group_size=4), hints=now
    )
    assert restored.hints.state_dict() == THEN
    assert now.state_dict() == NOW  # the run's own part is left as it is
    assert (restored.step, restored.policy_version, restored.figures) == (3, 2, {"pass_rate": 0.25})
    assert restored.prompts == PROMPTS
    assert restored.beliefs == prepared.beliefs
    assert torch.equal(restored.representations, torch.ones(2, 3))
