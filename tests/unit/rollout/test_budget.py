from __future__ import annotations

import random
import sys

import pytest

from ada_lightning.core.budget import StepBudget
from ada_lightning.core.records import Outcome, Prompt, Verdict
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.core.stopping import CappedRule
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.selection import AllSelection
from research.scripted import ScriptedEngine
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


class PlainBudget:
    """The definition, looked up for every request that waits, one that waits behind another included."""

    def __init__(self, budget, block, slots):
        self.budget, self.block, self.sizes, self.open, self.waiting = budget, block, {}, set(), {}
        self.join(slots)

    def join(self, slots):
        self.sizes |= {slot: [] for slot in slots}
        self.open |= set(slots)

    def request(self, slot, size):
        self.waiting[slot] = size

    def finish(self, slot):
        self.open.discard(slot)

    def decide(self):
        answers = []
        for slot, wanted in sorted(self.waiting.items(), key=lambda item: (len(self.sizes[item[0]]), item[0])):
            rounds = {other: len(self.sizes[slot]) + (other < slot) for other in self.sizes}
            before = sum(sum(sizes[: rounds[other]]) for other, sizes in self.sizes.items())
            others = self.open - {slot}
            possible = sum(max(0, rounds[other] - len(self.sizes[other])) * self.block for other in others)
            fits = before + possible + wanted <= self.budget
            if fits or possible == 0:
                answers.append((slot, wanted if fits else 0))
                self.sizes[slot] += [wanted] if fits else []
                self.open -= set() if fits else {slot}
                del self.waiting[slot]
        return answers


@pytest.mark.parametrize("seed", range(100))
def test_every_answer_is_that_of_the_definition(seed):
    """Blocks of any size up to the largest, as where failed grades leave holes; prompts that join later."""
    generator = random.Random(seed)
    block, slots = generator.choice([1, 4]), sorted(generator.sample(range(20), generator.choice([1, 6, 15])))
    budget = generator.randrange(4, 30 * len(slots))
    ledgers = [kind(budget, block, slots) for kind in (StepBudget, PlainBudget)]
    asking = list(slots)
    for _ in range(200):
        if generator.random() < 0.1:
            asking.append(slots[-1] + 1)
            slots.append(slots[-1] + 1)
            for ledger in ledgers:
                ledger.join(slots[-1:])
        if not asking:
            continue
        slot = asking.pop(generator.randrange(len(asking)))
        size = generator.choice([0, 1, block, block, block])
        for ledger in ledgers:
            if size:
                ledger.request(slot, size)
            else:
                ledger.finish(slot)
        answers, plain = (ledger.decide() for ledger in ledgers)
        assert answers == plain
        asking += [answered for answered, granted in answers if granted]


def steps_per_response(num_prompts, budget_per_prompt):
    """Steps of the interpreter that a rollout step takes in all, for each response."""
    sampler = BalanceSampler(
        k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4, budget_per_step=budget_per_prompt * num_prompts
    )
    prompts = [Prompt(str(number), (), prompt_ids=(1,)) for number in range(num_prompts)]
    num_steps = num_responses = 0

    def trace(frame, event, _):
        nonlocal num_steps
        frame.f_trace_opcodes = True
        num_steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step = Step(prompts, sampler=sampler, selection=AllSelection(), settings=StepSettings(seed=0))
        while not step.is_complete:
            for request in step.ask():
                num_responses += 1
                is_right = (request.sample_index * 7 + request.slot) % 9 == 0
                step.tell(request, Outcome("x", (1, 2), (0.0, 0.0), False, Verdict(float(is_right))))
    finally:
        sys.settrace(before)
    assert num_responses > 4 * num_prompts
    return num_steps / num_responses


@pytest.mark.parametrize("budget_per_prompt", [0, 16])
def test_what_a_response_costs_does_not_grow_with_the_prompts_of_a_step(budget_per_prompt):
    assert steps_per_response(128, budget_per_prompt) < 1.25 * steps_per_response(16, budget_per_prompt)


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
