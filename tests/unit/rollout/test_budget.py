from __future__ import annotations

import random

import pytest

from ada_lightning.core.budget import StepBudget
from ada_lightning.core.stopping import CappedRule
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.rollout.engines.scripted import ScriptedEngine
from tests.builders import collect


def round_based(wanted_by_slot, budget, block):
    """Rounds one after another, prompts in order, until a block does not fit."""
    granted = dict.fromkeys(wanted_by_slot, 0)
    refused = set()
    spent = 0
    for round_index in range(100):
        for slot, num_rounds in wanted_by_slot.items():
            if round_index < num_rounds and slot not in refused:
                if spent + block <= budget:
                    spent += block
                    granted[slot] += block
                else:
                    refused.add(slot)
    return granted


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_finishing_gives_the_grants_of_the_round_based_algorithm(seed):
    generator = random.Random(seed)
    wanted = {slot: generator.randrange(0, 6) for slot in range(7)}
    budget, block = generator.randrange(4, 90), 4
    ledger = StepBudget(budget, block, list(wanted))
    granted = dict.fromkeys(wanted, 0)
    running = []

    def ask(slot):
        if granted[slot] < wanted[slot] * block:
            ledger.request(slot, block)
        else:
            ledger.finish(slot)
        for answered, size in ledger.decide():
            granted[answered] += size
            if size:
                running.append(answered)

    for slot in wanted:
        ask(slot)
    while running:
        ask(running.pop(generator.randrange(len(running))))
    assert granted == round_based(wanted, budget, block)


class ThoroughBudget(StepBudget):
    """Looks at every request each time, behind one that has to wait too; grants a request by itself if it is one."""

    def decide(self):
        answers = []
        waiting = dict(self._waiting)
        for slot in sorted(waiting, key=lambda slot: (len(self._granted[slot]), slot)):
            self._waiting = {slot: waiting[slot]}
            answers += super().decide()
        self._waiting = {slot: size for slot, size in waiting.items() if slot not in dict(answers)}
        return answers


@pytest.mark.parametrize("seed", range(100))
def test_nothing_behind_a_request_that_has_to_wait_can_be_answered(seed):
    """Blocks of any size up to the largest, as where failed grades leave holes; prompts that join later."""
    generator = random.Random(seed)
    block, slots = 4, list(range(6))
    budget = generator.randrange(4, 120)
    ledgers = [kind(budget, block, slots) for kind in (StepBudget, ThoroughBudget)]
    asking = list(slots)
    for _ in range(60):
        if generator.random() < 0.1:
            asking.append(len(slots))
            slots.append(len(slots))
            for ledger in ledgers:
                ledger.join(slots[-1:])
        if not asking:
            continue
        slot = asking.pop(generator.randrange(len(asking)))
        size = generator.choice([0, 1, 3, block, block])
        for ledger in ledgers:
            if size:
                ledger.request(slot, size)
            else:
                ledger.finish(slot)
        answers, thorough = (ledger.decide() for ledger in ledgers)
        assert answers == thorough
        asking += [answered for answered, granted in answers if granted]


def test_a_step_looks_at_each_request_a_few_times_however_many_wait():
    """All prompts but the first ask again and wait for it: 200 requests, one look each, and one when it is answered."""

    class CountingBudget(StepBudget):
        num_looks = 0

        def _before(self, slot):
            self.num_looks += 1
            return super()._before(slot)

    num_prompts, block = 200, 4
    ledger = CountingBudget(num_prompts * block + block, block, list(range(num_prompts)))
    for slot in range(num_prompts):
        ledger.request(slot, block)
        ledger.decide()
    ledger.num_looks = 0
    for slot in reversed(range(1, num_prompts)):
        ledger.request(slot, block)
        ledger.decide()
    assert ledger.num_looks <= 2 * num_prompts
    ledger.finish(0)
    assert ledger.decide() == [(1, block)] + [(slot, 0) for slot in range(2, num_prompts)]


def test_no_budget_grants_everything_at_once():
    ledger = StepBudget(0, 4, [0, 1])
    ledger.request(1, 4)
    assert ledger.decide() == [(1, 4)]


def test_a_pool_that_was_cut_off_carries_the_rule_that_cut_it():
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4, budget_per_step=100)
    groups, _ = collect([1, 2, 3] * 4, ScriptedEngine(pass_rates={1: 0.02, 2: 0.5, 3: 0.1}), sampler)
    pools = [group.pool for group in groups]
    cut = [pool for pool in pools if isinstance(pool.rule, CappedRule)]
    assert cut
    assert all(pool.rule.n_max == pool.num_sampled < 32 and not pool.is_resolved for pool in cut)
    assert all(pool.rule.stops(pool.num_positive, pool.num_negative) for pool in pools)
