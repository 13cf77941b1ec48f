"""TRL's whole asynchronous trainer on a CPU: a tiny model, its rollout process, and a stand-in for vLLM's server."""

from __future__ import annotations

import json
import math
import os
import random
import threading
import time
from collections.abc import Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.experimental.async_grpo import AsyncGRPOConfig, async_grpo_trainer, packing

from ada_lightning.adapters.trl.async_trainer import AdaAsyncGRPOTrainer, AsyncAda
from ada_lightning.adapters.trl.rows import PromptRows
from tests.unit.adapters.trl_world import MAX_TOKENS, model_folder, sample

ROWS = [
    {
        "prompt": [{"role": "user", "content": f"What is {number} + {number}?"}],
        "answer": str(number),
        "name": f"p{number}",
    }
    for number in range(12)
]
NUM_PROMPTS = 4
DELAYS = "ADA_TEST_DELAYS"
"""Seconds that a call of the reward functions takes, by the name of a row, as JSON in the environment of the child."""


def reward(completions: Sequence[Any], name: Sequence[str], answer: Sequence[str], **others: Any) -> list[float | None]:
    """Whether it begins with a ``y``; the reference arrives with its own response."""
    assert list(name) == [f"p{reference}" for reference in answer]
    for row in name:
        time.sleep(json.loads(os.environ.get(DELAYS, "{}")).get(row, 0.0))
    return [float(text[0]["content"].startswith("y")) for text in completions]


class Server:
    """Answers completions as :func:`tests.unit.adapters.trl_world.sample` has them, with the model's probabilities."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.order = random.Random(1)
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *given: Any) -> None:
                pass

            def do_POST(self) -> None:
                payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(server.answer(payload)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def answer(self, payload: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.asked.append({"prompt": tuple(payload["prompt"]), "seed": payload["seed"]})
            wait = self.order.random() / 50
        time.sleep(wait)
        ((tokens, _),) = sample([payload["prompt"]], [payload["seed"]])
        with self._lock, torch.no_grad():
            logits = (
                model().eval()(torch.tensor([payload["prompt"] + tokens])).logits[0, len(payload["prompt"]) - 1 : -1]
            )
        logprobs = logits.log_softmax(-1)[torch.arange(len(tokens)), torch.tensor(tokens)].tolist()
        return {"choices": [{"token_ids": tokens, "logprobs": {"token_logprobs": logprobs}}]}

    def close(self) -> None:
        self._http.shutdown()


def tokenizer() -> Any:
    """The model's, which also says where a response ends, as TRL asks of a template that it does not know."""
    found = AutoTokenizer.from_pretrained(model_folder())
    content = {"close_pattern": r"<\|im_end\|>\s*", "content": "text"}
    found.response_template = {
        "defaults": {"role": "assistant"}, "start_anchor": "<|im_start|>assistant\n", "fields": {"content": content},
    }  # fmt: skip
    return found


@cache
def model(dtype: torch.dtype = torch.float32) -> Any:
    return AutoModelForCausalLM.from_pretrained(model_folder(), dtype=dtype)


@cache
def prompt_ids(number: int) -> tuple[int, ...]:
    ids = tokenizer().apply_chat_template(ROWS[number]["prompt"], return_dict=False, add_generation_prompt=True)
    return tuple(ids)


class NoWeights:
    """In the place of a transfer of weights to a server."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given: [None for _ in given[0]] if given else None


def without_accelerator(monkeypatch: Any) -> None:
    """Replace the two parts of TRL's trainer that want one: its attention kernel, and a figure of its speed."""

    class Attention:
        @staticmethod
        def flash_attn_varlen_func(q: Any, k: Any, v: Any, at_q: Any, at_k: Any, *sizes: Any, **options: Any) -> Any:
            found = []
            for (q0, q1), (k0, k1) in zip(pairwise(at_q), pairwise(at_k), strict=True):
                query, key, value = q[q0:q1], k[k0:k1], v[k0:k1]
                key, value = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (key, value))
                mask = torch.ones(len(query), len(key), dtype=torch.bool).tril(len(key) - len(query))
                found.append(
                    torch.nn.functional.scaled_dot_product_attention(
                        query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), attn_mask=mask,
                        scale=options["softmax_scale"],
                    ).transpose(0, 1)
                )  # fmt: skip
            return torch.cat(found)

    monkeypatch.setattr(packing, "_flash_attn", Attention)
    monkeypatch.setattr(async_grpo_trainer, "get_peak_flops_per_device", lambda *given: math.inf)


def trainer_of(server: Server, folder: Path, ada: AsyncAda, **config: Any) -> AdaAsyncGRPOTrainer:
    given: dict[str, Any] = {
        "output_dir": str(folder), "use_cpu": True, "bf16": False, "seed": 0, "max_steps": 2,
        "gradient_checkpointing": False, "max_completion_length": MAX_TOKENS, "learning_rate": 1e-2, "optim": "sgd",
        "max_grad_norm": 0.0, "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
        "vllm_server_base_url": server.url, "request_timeout": 20,
    }  # fmt: skip
    callbacks = config.pop("callbacks", [])
    return AdaAsyncGRPOTrainer(
        model=str(model_folder()),
        reward_funcs=config.pop("reward_funcs", reward),
        args=AsyncGRPOConfig(**(given | ada.config() | config)),
        train_dataset=Dataset.from_list(ROWS),
        processing_class=tokenizer(),
        callbacks=callbacks,
        weight_transfer=NoWeights(),
        ada=ada,
    )


def closed_form(ada: AsyncAda, step: int) -> tuple[torch.Tensor, set[tuple[tuple[int, ...], int]]]:
    """Gradient of a step's loss for the model as it is, in double precision, and the (prompt, seed) that it draws."""
    settings = ada.loop_settings(AsyncGRPOConfig(output_dir="unused", bf16=False, use_cpu=True, **ada.config()), 1)
    brain = settings.brain(PromptRows(ROWS, "name"), MAX_TOKENS)
    words, asked = tokenizer(), set()
    for number in range(step + 1):
        handouts = brain.choose()
        asked = set()
        while handouts:
            for handout in handouts:
                ids = prompt_ids(int(handout.prompt_id[1:]))
                for index, seed in zip(handout.indices, handout.seeds, strict=True):
                    ((tokens, _),) = sample([list(ids)], [seed])
                    right = words.decode(tokens, skip_special_tokens=True).startswith("y")
                    told = {"reward": float(right), "num_tokens": len(tokens), "payload": (ids, tokens)}
                    brain.add(handout.step, handout.slot, {index: told})
                    asked.add((ids, seed))
            again = [brain.hand_out(number, slot) for slot in range(NUM_PROMPTS)]
            handouts = [handout for handout in again if handout is not None]
        finished = brain.finish()
    exact, loss = model(torch.float64), torch.zeros((), dtype=torch.float64)
    exact.zero_grad()
    for row in finished.rows:
        ids, tokens = row.payload
        logits = exact(torch.tensor([[*ids, *tokens]])).logits[0, len(ids) - 1 : -1]
        loss = loss - row.weight * logits.log_softmax(-1)[torch.arange(len(tokens)), torch.tensor(tokens)].sum()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in exact.parameters() if p.grad is not None]), asked
