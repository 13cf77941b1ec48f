"""Beliefs and pools of prompts, for tests of samplers that plan."""

from __future__ import annotations

from hypothesis import strategies as st

from ada_lightning.core.records import Belief, ResponsePool, SamplingSettings
from ada_lightning.methods.selection import AllSelection
from research.scripted import ScriptedEngine
from tests.builders import Collector, InstantGrader, decode, make_pool, make_prompt

GOLDEN = (0.02, 0.1, 0.25, 0.5, 0.75, 0.95)
"""Pass rates of the hand-computed plans, for 48 responses."""
UNKNOWN = Belief(1.0, 1.0)


def seen(rate, num=1000.0):
    """A prompt that passed this share of many tries; its mean is the share, as far as a Beta distribution allows."""
    return Belief(max(num * rate, 1e-9), max(num * (1 - rate), 1e-9), num, num * rate)


def planned(sampler, beliefs):
    pools = [ResponsePool(make_prompt(slot), slot, belief=belief) for slot, belief in enumerate(beliefs)]
    sampler.plan(pools)
    return [sampler.num_to_draw(pool) for pool in pools]


def any_beliefs():
    """Unknown prompts, hopeless and solved ones, and all between; often with equal ones among them."""
    rates = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 0.25]), st.floats(0.001, 0.999))
    return st.lists(st.one_of(st.just(UNKNOWN), rates.map(seen)), min_size=1, max_size=12)


def pilots(*positives, size=4):
    """Pools of graded pilots with so many right ones, in slots from 0."""
    return [
        make_pool([1.0] * right + [0.0] * (size - right), slot=slot, key=slot) for slot, right in enumerate(positives)
    ]


def divided(sampler, pools):
    """Responses of each prompt in all, after its pilot and every stage, with nothing learned between stages."""
    empty = [ResponsePool(pool.prompt, pool.slot) for pool in pools]
    sampler.plan(empty)
    assert [sampler.num_to_draw(pool) for pool in empty] == [sampler.num_pilot] * len(pools)
    for stage in range(1, sampler.num_stages):
        sampler.plan(pools, stage)
    return [pool.num_drawn + sampler.num_to_draw(pool) for pool in pools]


def collected(sampler, rates, *, selection=None, grader=None, engine=None, beliefs=(), step=0, **options):
    """Groups and counts of a rollout of prompts with these pass rates by their keys, on the scripted engine."""
    return Collector(decode=decode, seed=0, **options).collect(
        [make_prompt(key) for key in rates],
        engine=engine or ScriptedEngine(pass_rates=rates, num_polls=lambda generator, _: generator.randrange(1, 20)),
        grader=grader or InstantGrader(),
        sampler=sampler,
        selection=selection or AllSelection(),
        settings=SamplingSettings(max_new_tokens=4),
        step=step,
        policy_version=0,
        beliefs=beliefs,
    )
