"""An engine that samples from the policy's own weights in this process, without vLLM and its seconds of start-up."""

from __future__ import annotations

import random
from pathlib import Path

import torch

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Generation


class PolicyEngine(RolloutEngine):
    """Draws responses with transformers: a token of every running request a poll, each response by its own seed.

    A batch is drawn to its end when it starts, which costs a fraction of stepping, and handed out at its pace.
    """

    def __init__(self, *, model_path, log_file, max_model_tokens, eos_token_ids, max_num_seqs=32, dtype="float32"):
        from transformers import AutoModelForCausalLM

        self._model = AutoModelForCausalLM.from_pretrained(model_path, dtype=getattr(torch, dtype)).eval()
        self._eos_token_ids = set(eos_token_ids)
        self.max_model_tokens, self.max_num_seqs = max_model_tokens, max_num_seqs
        self._waiting, self._running = {}, {}
        self._clock = 0
        Path(log_file).write_text(f"{type(self).__name__}: {type(self._model).__name__}\n")

    def submit(self, request_id, prompt_ids, settings, seed):
        self._waiting[request_id] = list(prompt_ids), settings, seed

    def poll(self):
        free = self.max_num_seqs - len(self._running)
        if started := [(name, *self._waiting.pop(name)) for name in list(self._waiting)[:free]]:
            for generation in self._drawn(started):
                self._running[generation.request_id] = self._clock, generation
        self._clock += 1
        done = [
            name for name, (start, drawn) in self._running.items() if self._clock - start >= len(drawn.response_ids)
        ]
        return [self._running.pop(name)[1] for name in done]

    def abort(self, request_ids):
        dropped = [self._running.pop(name) for name in request_ids if name in self._running]
        for name in request_ids:
            self._waiting.pop(name, None)
        return sum(self._clock - start for start, _ in dropped)

    def num_in_flight(self):
        return len(self._waiting) + len(self._running)

    def load_weights(self, named_tensors, policy_version):
        assert not self.num_in_flight()
        with torch.no_grad():
            parameters = dict(self._model.named_parameters())
            for name, tensor in named_tensors:
                if name in parameters:  # a tied head comes under its own name too
                    parameters[name].copy_(tensor)

    def close(self):
        self._waiting.clear()
        self._running.clear()

    @torch.no_grad()
    def _drawn(self, requests):
        """Responses to a batch of (id, prompt, settings, seed); equal prompts are read once."""
        prompts = {tuple(prompt): None for _, prompt, _, _ in requests}
        rows = {prompt: row for row, prompt in enumerate(prompts)}
        row_R = torch.tensor([rows[tuple(prompt)] for _, prompt, _, _ in requests])
        longest = max(map(len, prompts))
        tokens_PT = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
        mask_PT = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        read = self._model(
            tokens_PT, attention_mask=mask_PT, position_ids=(mask_PT.cumsum(1) - 1).clamp(min=0), logits_to_keep=1
        )
        cache = read.past_key_values
        cache.batch_select_indices(row_R)
        logits_RV, mask_RT = read.logits[row_R, -1], mask_PT[row_R]
        temperature_R = torch.tensor([settings.temperature for _, _, settings, _ in requests])
        generators = [random.Random(seed) for *_, seed in requests]
        responses, logprobs = [[] for _ in requests], [[] for _ in requests]
        for _ in range(max(settings.max_new_tokens for _, _, settings, _ in requests)):
            logprobs_RV = (logits_RV.float() / temperature_R[:, None]).log_softmax(-1)
            chance_R = torch.tensor([generator.random() for generator in generators], dtype=torch.double)
            cumulative_RV = logprobs_RV.double().exp().cumsum(-1)
            drawn_R = torch.searchsorted(cumulative_RV, chance_R[:, None] * cumulative_RV[:, -1:], right=True)[:, 0]
            drawn_R = drawn_R.clamp(max=logprobs_RV.shape[1] - 1)
            values = logprobs_RV.gather(1, drawn_R[:, None])[:, 0].tolist()
            for response, kept, token, value in zip(responses, logprobs, drawn_R.tolist(), values, strict=True):
                response.append(token)
                kept.append(value)
            mask_RT = torch.cat([mask_RT, torch.ones_like(mask_RT[:, :1])], 1)
            positions_R1 = mask_RT.sum(1, keepdim=True) - 1
            logits_RV = self._model(
                drawn_R[:, None], attention_mask=mask_RT, position_ids=positions_R1, past_key_values=cache
            ).logits[:, -1]
        for (name, _, settings, _), response, kept in zip(requests, responses, logprobs, strict=True):
            ends = [index + 1 for index, token in enumerate(response) if token in self._eos_token_ids]
            num_tokens = min([*ends, settings.max_new_tokens])
            is_truncated = not ends or ends[0] > settings.max_new_tokens
            yield Generation(name, tuple(response[:num_tokens]), tuple(kept[:num_tokens]), is_truncated)
