"""An engine of transformers and torch alone, for machines without vLLM."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Outcome, SamplingSettings
from ada_lightning.rollout.engines.errors import check_fits
from ada_lightning.rollout.engines.transformers_decoder import IMPLEMENTATION, Decoder, Slots, attend, draw
from ada_lightning.run.machine import has_fast_bfloat16, is_out_of_memory

if TYPE_CHECKING:
    from torch import Tensor

_DTYPES = ("auto", "bfloat16", "float16", "float32")
_DEVICES = ("auto", "cpu", "cuda")
_NUM_CHECKED = 8
"""Tokens of the text by which an architecture is tried."""
_LARGEST_GAP = {"float32": 0.01, "float16": 0.3, "bfloat16": 0.3}
"""Of logits, in standard deviations, mean over the vocabulary. Of the default model: rounding alone 1e-5 in float32 and
0.07 in bfloat16, tokens one place off 0.4 and 0.24; so in half precision only a grosser mistake is found."""


@dataclass(slots=True)
class _Request:
    request_id: str
    prompt_ids: tuple[int, ...]
    settings: SamplingSettings
    uniforms: np.ndarray
    """One for each token that may be drawn."""
    response_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def last_token(self) -> int:
        """What the next step takes in."""
        return (self.response_ids or self.prompt_ids)[-1]

    @property
    def position(self) -> int:
        """Where that token stands."""
        return len(self.prompt_ids) + len(self.response_ids) - 1


class TransformersEngine(RolloutEngine):
    """A :class:`~ada_lightning.core.protocols.RolloutEngine` on a model of transformers, batched continuously.

    A sequence that ends makes room for the next one at once. Prompts that are waiting are computed together, equal ones
    once, up to their last token: with that one decoding begins. Memory for keys and values is taken whole,
    ``max_num_seqs`` times ``max_model_tokens``; no prefix is kept from one batch of prompts to the next.

    Args:
        model_path: folder of a Hugging Face checkpoint; only its architecture matters after the first ``load_weights``.
        log_file: gets a line that says what was opened.
        max_model_tokens: prompt and response together, in tokens.
        eos_token_ids: tokens that end a response.
        max_num_seqs: sequences decoded at once.
        max_prefill_tokens: of prompts computed at once, padding included.
        dtype: of weights and activations; ``auto``: bfloat16 where this machine computes fast in it, else float32.
        device: ``auto``: the GPU where torch sees one, else the CPU.

    Raises:
        ValueError: see :meth:`check_arguments`; or the model does not decode here as it reads a whole text.
    """

    def __init__(
        self,
        *,
        model_path: Path,
        log_file: Path,
        max_model_tokens: int,
        eos_token_ids: Sequence[int],
        max_num_seqs: int = 128,
        max_prefill_tokens: int = 16_384,
        dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto",
        device: Literal["auto", "cpu", "cuda"] = "auto",
    ) -> None:
        from transformers import AttentionInterface, AutoModelForCausalLM

        self.check_arguments(
            max_model_tokens=max_model_tokens,
            max_num_seqs=max_num_seqs,
            max_prefill_tokens=max_prefill_tokens,
            dtype=dtype,
            device=device,
        )
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.max_model_tokens = max_model_tokens
        self.max_num_seqs = max_num_seqs
        self.weight_dtype = dtype
        if dtype == "auto":
            self.weight_dtype = "bfloat16" if has_fast_bfloat16(on_gpu=device == "cuda") else "float32"
        self._max_prefill_tokens = max_prefill_tokens
        self._eos_token_ids = frozenset(eos_token_ids)
        AttentionInterface.register(IMPLEMENTATION, attend)
        model: Any = AutoModelForCausalLM.from_pretrained(
            model_path, dtype=getattr(torch, self.weight_dtype), trust_remote_code=False
        )
        check_layers(model.config.get_text_config(), max_model_tokens)
        self._model = model.to(device).eval().requires_grad_(False)
        with log_file.open("a", encoding="utf-8") as file:
            file.write(f"{type(model).__name__} in {self.weight_dtype} on {device}\n")
        self._slots = Slots(max_num_seqs, max_model_tokens)
        self._decoder = Decoder(self._model, self._slots, captures=device == "cuda")
        self._unseeded = np.random.default_rng()
        self._waiting: deque[_Request] = deque()
        self._free = list(range(max_num_seqs))  # a heap: slots in use are kept together at the front
        self._running: dict[int, _Request] = {}
        self._check_decoding()

    @staticmethod
    def check_arguments(**arguments: Any) -> None:
        """Raise ValueError for what is wrong with arguments of the constructor, as many as are known yet."""
        limits = ("max_model_tokens", "max_num_seqs", "max_prefill_tokens")
        choices = {"dtype": _DTYPES, "device": _DEVICES}
        refuse(
            *unmet(
                *(
                    (arguments[name] > 0, f"rollout.engine.{name} must be positive", arguments[name])
                    for name in limits
                    if name in arguments
                ),
                *(
                    (
                        arguments[name] in known,
                        f"rollout.engine.{name} must be one of {', '.join(known)}",
                        arguments[name],
                    )
                    for name, known in choices.items()
                    if name in arguments
                ),
            )
        )
        if arguments.get("device") == "cuda" and not torch.cuda.is_available():
            raise ValueError("rollout.engine.device = cuda, but torch sees no GPU on this machine; use device=auto")

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue one response.

        Raises:
            ValueError: prompt and longest response together exceed ``max_model_tokens``, or the prompt is empty.
        """
        check_fits(len(prompt_ids), settings.max_new_tokens, self.max_model_tokens)
        if not prompt_ids:
            raise ValueError(f"request {request_id} has an empty prompt")
        generator = self._unseeded if seed is None else np.random.default_rng(seed)
        uniforms = generator.random(settings.max_new_tokens)
        self._waiting.append(_Request(request_id, tuple(prompt_ids), settings, uniforms))

    @torch.inference_mode()
    def poll(self) -> list[Outcome]:
        """Let waiting requests in, draw one token of every running one, and return what finished.

        Raises:
            RuntimeError: the model's logits are not finite.
        """
        self._admit()
        if not self._running:
            return []
        self._close_ranks()
        size = max(self._running) + 1
        tokens, positions = [0] * size, [0] * size
        for slot, request in self._running.items():
            tokens[slot], positions[slot] = request.last_token, request.position
        logits_BV = self._decoder.step(torch.tensor(tokens), torch.tensor(positions))
        for settings, slots in self._by_settings().items():
            self._append(slots, logits_BV, settings)
        return self._finished()

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests. Return how many tokens had been generated for them."""
        dropped = set(request_ids)
        self._waiting = deque(request for request in self._waiting if request.request_id not in dropped)
        slots = [slot for slot, request in self._running.items() if request.request_id in dropped]
        return sum(len(self._release(slot).response_ids) for slot in slots)

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        return len(self._waiting) + len(self._running)

    @torch.no_grad()
    def load_weights(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Replace the weights.

        Raises:
            RuntimeError: requests are in flight, or what came is not the model's weights.
        """
        if self.num_in_flight():
            raise RuntimeError(f"load_weights with {self.num_in_flight()} requests in flight")
        own = dict(self._model.named_parameters(remove_duplicate=False))
        missing = {id(parameter) for parameter in own.values()}
        for name, tensor in named_tensors:
            if name not in own or own[name].shape != tensor.shape:
                has = tuple(own[name].shape) if name in own else "no such weight"
                raise RuntimeError(
                    f"policy version {policy_version} came with {name} of shape {tuple(tensor.shape)}; the engine's "
                    f"model has {has}"
                )
            own[name].copy_(tensor)
            missing.discard(id(own[name]))
        if missing:
            names = sorted(name for name, parameter in own.items() if id(parameter) in missing)
            raise RuntimeError(f"policy version {policy_version} came without {', '.join(names)}")

    def close(self) -> None:
        """Free weights and cache. Safe to call twice."""
        self._waiting.clear()
        self._running.clear()
        for name in ("_decoder", "_slots", "_model"):
            self.__dict__.pop(name, None)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    @torch.inference_mode()
    def _check_decoding(self) -> None:
        """Compare what decoding gives with what the model's own attention makes of a whole text.

        An architecture may attend, place tokens or cache in a way of its own. On a GPU this also takes the memory of
        keys and values, and captures a first graph.
        """
        name = self._model.config.model_type
        refused = f"{name} does not decode with rollout=transformers"
        if not self._model._can_set_attn_implementation():
            raise ValueError(f"{refused}: it has attention of its own; use a vLLM engine")
        num_tokens = min(_NUM_CHECKED, self.max_model_tokens)
        text = [1 + index % (self._model.config.get_text_config().vocab_size - 1) for index in range(num_tokens)]
        whole_TV = self._model(torch.tensor([text], device=self._model.device), use_cache=False).logits[0].float()
        try:
            self._model.set_attn_implementation(IMPLEMENTATION)
            first = num_tokens // 2
            if first:
                self._prefill({tuple(text[:first]): [0]})
            rows = []
            for position in range(first, num_tokens):
                logits_1V = self._decoder.step(torch.tensor([text[position]]), torch.tensor([position]))
                rows.append(logits_1V[0].to(torch.float32, copy=True))  # the next step overwrites them
        except Exception as error:
            if is_out_of_memory(error):
                raise ValueError(
                    f"there is no memory for keys and values of rollout.engine.max_num_seqs = {self.max_num_seqs} "
                    f"sequences of rollout.max_model_tokens = {self.max_model_tokens}; lower one of them"
                ) from error
            raise ValueError(f"{refused} ({type(error).__name__}: {error}); use a vLLM engine") from error
        gap = (torch.stack(rows) - whole_TV[first:]).abs().mean() / whole_TV.std()
        if not gap < _LARGEST_GAP[self.weight_dtype]:
            raise ValueError(
                f"{refused}: its logits differ by {gap:.2g} standard deviations from those of a whole text; use a vLLM "
                "engine"
            )

    def _admit(self) -> None:
        """Give free slots to waiting requests and compute their prompts, few enough at once."""
        admitted: dict[tuple[int, ...], list[int]] = {}
        while self._waiting and self._free:
            request, slot = self._waiting.popleft(), heapq.heappop(self._free)
            self._running[slot] = request
            admitted.setdefault(request.prompt_ids[:-1], []).append(slot)
        admitted.pop((), None)  # there is nothing before the only token
        prefixes = sorted(admitted, key=len)
        while prefixes:
            num_rows = max(1, self._max_prefill_tokens // len(prefixes[-1]))
            self._prefill({prefix: admitted[prefix] for prefix in prefixes[-num_rows:]})
            del prefixes[-num_rows:]

    def _close_ranks(self) -> None:
        """Move sequences from the last slots to free ones before, where that makes a step smaller."""
        size = self._decoder.size(len(self._running))
        if moved := sorted(slot for slot in self._running if slot >= size):
            targets = [heapq.heappop(self._free) for _ in moved]
            self._slots.move(moved, targets, 1 + max(self._running[slot].position for slot in moved))
            for slot, target in zip(moved, targets, strict=True):
                self._running[target] = self._release(slot)

    def _prefill(self, slots_of: dict[tuple[int, ...], list[int]]) -> None:
        """Compute prompts up to their last token. Padding stands behind, where no token of a prompt looks."""
        from transformers import DynamicCache

        longest = max(map(len, slots_of))
        tokens_PT = torch.tensor([[*prefix, *[0] * (longest - len(prefix))] for prefix in slots_of])
        cache = DynamicCache()
        self._model(input_ids=tokens_PT.to(self._model.device), past_key_values=cache, use_cache=True, logits_to_keep=1)
        rows = [row for row, slots in enumerate(slots_of.values()) for _ in slots]
        self._slots.store([slot for slots in slots_of.values() for slot in slots], rows, cache)

    def _by_settings(self) -> dict[SamplingSettings, list[int]]:
        groups: dict[SamplingSettings, list[int]] = {}
        for slot, request in self._running.items():
            groups.setdefault(request.settings, []).append(slot)
        return groups

    def _append(self, slots: list[int], logits_BV: Tensor, settings: SamplingSettings) -> None:
        """Draw the next token of some slots."""
        requests = [self._running[slot] for slot in slots]
        uniforms = torch.tensor([request.uniforms[len(request.response_ids)] for request in requests])
        tokens, logprobs = draw(logits_BV[slots], uniforms.to(logits_BV.device), settings)
        for request, token, logprob in zip(requests, tokens.tolist(), logprobs.tolist(), strict=True):
            if not math.isfinite(logprob):
                raise RuntimeError(f"the model's logits after {request.position + 1} tokens are not finite")
            request.response_ids.append(token)
            request.logprobs.append(logprob)

    def _finished(self) -> list[Outcome]:
        found = []
        for slot, request in list(self._running.items()):
            is_ended = request.response_ids[-1] in self._eos_token_ids
            if is_ended or len(request.response_ids) == request.settings.max_new_tokens:
                self._release(slot)
                found.append(
                    Outcome(
                        text="",
                        request_id=request.request_id,
                        response_ids=tuple(request.response_ids),
                        sampling_logprobs=tuple(request.logprobs),
                        is_truncated=not is_ended,
                    )
                )
        return found

    def _release(self, slot: int) -> _Request:
        heapq.heappush(self._free, slot)
        return self._running.pop(slot)


def check_layers(config: Any, max_model_tokens: int) -> None:
    """Refuse a model whose layers do not all attend to every earlier token.

    Raises:
        ValueError: it has others, or a window shorter than ``max_model_tokens``.
    """
    kinds = set(getattr(config, "layer_types", None) or ())
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if (kind := rope.get("rope_type", rope.get("type"))) in ("longrope", "dynamic"):
        raise ValueError(
            f"positions of {config.model_type} ({kind}) depend on the longest sequence in the batch, so that responses "
            "would change with what runs together; use a vLLM engine"
        )
    window = getattr(config, "sliding_window", None) or max_model_tokens
    if getattr(config, "use_sliding_window", True) is False:
        window = max_model_tokens
    if others := sorted(kinds - {"full_attention", "sliding_attention"}):
        raise ValueError(
            f"layers of {config.model_type} ({', '.join(others)}) need a cache that rollout=transformers does not "
            "have; use a vLLM engine"
        )
    if window < max_model_tokens and kinds != {"full_attention"}:
        raise ValueError(
            f"{config.model_type} attends to {window} tokens, but rollout.max_model_tokens = {max_model_tokens}: "
            "rollout=transformers has no windows; use a vLLM engine, or fewer tokens"
        )
