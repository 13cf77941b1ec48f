"""An engine of transformers and torch alone, for machines without vLLM."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
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
_FIRST_CHECK = 32
"""Tokens of a draft that are checked first; then as many as were right so far: of a long draft that goes wrong at its
beginning, the rest is not computed."""
_MOST_LOGITS = 2**25
"""Of one pass that checks drafts: 128 MiB in float32, as many as 682 tokens of a vocabulary of 49,152 have."""


@dataclass(slots=True)
class _Request:
    request_id: str
    prompt_ids: tuple[int, ...]
    settings: SamplingSettings
    uniforms: np.ndarray
    """One for each token that may be drawn."""
    draft: tuple[int, ...] = ()
    """What may follow the response so far, as far as it is not checked: a token less than may be drawn, at most."""
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

    def next_uniforms(self, number: int) -> np.ndarray:
        """Return those of the tokens that are drawn next."""
        return self.uniforms[len(self.response_ids) :][:number]

    def num_to_check(self, most: int) -> int:
        """How many tokens are drawn by one pass over the next part of the draft; 0 without a draft."""
        return min(len(self.draft) + 1, max(_FIRST_CHECK, len(self.response_ids)), most) if self.draft else 0

    def add(self, token: int, logprob: float) -> None:
        """Append a token that was drawn.

        Raises:
            RuntimeError: its log-probability is not finite.
        """
        if not math.isfinite(logprob):
            raise RuntimeError(f"the model's logits after {self.position + 1} tokens are not finite")
        self.response_ids.append(token)
        self.logprobs.append(logprob)


class TransformersEngine(RolloutEngine):
    """A :class:`~ada_lightning.core.protocols.RolloutEngine` on a model of transformers, batched continuously.

    A sequence that ends makes room for the next one at once. Prompts that are waiting are computed together, equal ones
    once, up to their last token: with that one decoding begins. A prompt that a slot still has is copied from there.
    Memory for keys and values is taken whole, ``max_num_seqs`` times ``max_model_tokens``.

    On a CPU a request may come with a draft, a guess at its response. One pass computes many of its tokens. Each place
    is then drawn with the request's own number, as without a draft. What is drawn up to the first difference is the
    response so far, and decoding goes on from there. So a draft changes nothing but the time, whatever it says: the
    response is the same, up to rounding of the logits.

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
        self._vocab_size = model.config.get_text_config().vocab_size
        with log_file.open("a", encoding="utf-8") as file:
            file.write(f"{type(model).__name__} in {self.weight_dtype} on {device}\n")
        self._slots = Slots(max_num_seqs, max_model_tokens)
        self._decoder = Decoder(self._model, self._slots, captures=device == "cuda")
        self._unseeded = np.random.default_rng()
        self._waiting: deque[_Request] = deque()
        self._free = list(range(max_num_seqs))  # a heap: slots in use are kept together at the front
        self.takes_drafts = device == "cpu"  # measured there alone: docs/engines.md
        self._running: dict[int, _Request] = {}
        self._prefix_of: dict[int, tuple[int, ...]] = {}
        """By slot, the prompt that its first positions have, whether it is in use or not."""
        self._slot_of: dict[tuple[int, ...], int] = {}
        """By prompt, the slot that had it last; whether it still has it, the other one knows."""
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

    def submit(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        settings: SamplingSettings,
        seed: int | None,
        draft: Sequence[int] = (),
    ) -> None:
        """Queue one response; ``draft`` is a guess at it, which may be wrong.

        Raises:
            ValueError: prompt and longest response together exceed ``max_model_tokens``, or the prompt is empty.
        """
        check_fits(len(prompt_ids), settings.max_new_tokens, self.max_model_tokens)
        if not prompt_ids:
            raise ValueError(f"request {request_id} has an empty prompt")
        if not self.num_in_flight():  # a rollout does not depend on what was drawn before it
            self._prefix_of.clear()
            self._slot_of.clear()
        generator = self._unseeded if seed is None else np.random.default_rng(seed)
        uniforms = generator.random(settings.max_new_tokens)
        guess = takewhile(self._may_go_on, draft[: settings.max_new_tokens - 1] if self.takes_drafts else ())
        self._waiting.append(_Request(request_id, tuple(prompt_ids), settings, uniforms, tuple(guess)))

    @torch.inference_mode()
    def poll(self) -> list[Outcome]:
        """Let waiting requests in, check their drafts, draw one token of every running one; return what finished.

        Raises:
            RuntimeError: the model's logits are not finite.
        """
        finished: list[Outcome] = []
        while self._waiting and self._free:  # where a draft was right to its end, its slot is free at once
            self._admit()
            self._check_drafts()
            finished += self._finished()
        if not self._running:
            return finished
        self._close_ranks()
        size = max(self._running) + 1
        tokens, positions = [0] * size, [0] * size
        for slot, request in self._running.items():
            tokens[slot], positions[slot] = request.last_token, request.position
        logits_BV = self._decoder.step(torch.tensor(tokens), torch.tensor(positions))
        if (written := self._decoder.size(size)) > len(self._running):
            for slot in set(range(written)).difference(self._running):  # a step writes their first position
                self._prefix_of.pop(slot, None)
        for settings, slots in self._by_settings(self._running).items():
            self._append(slots, logits_BV, settings)
        return finished + self._finished()

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
        text = [1 + index % (self._vocab_size - 1) for index in range(num_tokens)]
        whole_TV = self._model(torch.tensor([text], device=self._model.device), use_cache=False).logits[0].float()
        try:
            self._model.set_attn_implementation(IMPLEMENTATION)
            first = num_tokens // 2
            if first:
                self._prefill({tuple(text[:first]): [0]})
            rows: list[Tensor] = []
            if self.takes_drafts:  # all at once, and below one by one
                checked_1TV = self._decoder.check(torch.tensor([text[first:]]), torch.tensor([first]), [0])
                rows += checked_1TV[0].float()
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
        by_way = torch.stack(rows).unflatten(0, (-1, num_tokens - first))
        gap = (by_way - whole_TV[first:]).abs().mean((1, 2)).max() / whole_TV.std()
        if not gap < _LARGEST_GAP[self.weight_dtype]:
            raise ValueError(
                f"{refused}: its logits differ by {gap:.2g} standard deviations from those of a whole text; use a vLLM "
                "engine"
            )

    def _admit(self) -> None:
        """Give free slots to waiting requests, and copy or compute their prompts, few enough at once."""
        admitted: dict[tuple[int, ...], list[int]] = {}
        while self._waiting and self._free:
            request, slot = self._waiting.popleft(), heapq.heappop(self._free)
            self._running[slot] = request
            prefix = request.prompt_ids[:-1]
            source = self._slot_of.get(prefix, slot)
            has_it = self._prefix_of.get(source) == prefix
            self._prefix_of.pop(slot, None)
            if has_it:
                if source != slot:
                    self._slots.move([source], [slot], len(prefix))
                self._keep(prefix, slot)
            elif prefix:  # else there is nothing before the only token
                admitted.setdefault(prefix, []).append(slot)
        prefixes = sorted(admitted, key=len)
        while prefixes:
            num_rows = max(1, self._max_prefill_tokens // len(prefixes[-1]))
            self._prefill({prefix: admitted[prefix] for prefix in prefixes[-num_rows:]})
            del prefixes[-num_rows:]
        for prefix, slots in admitted.items():
            for slot in slots:
                self._keep(prefix, slot)

    def _close_ranks(self) -> None:
        """Move sequences from the last slots to free ones before, where that makes a step smaller."""
        size = self._decoder.size(len(self._running))
        if moved := sorted(slot for slot in self._running if slot >= size):
            targets = [heapq.heappop(self._free) for _ in moved]
            self._slots.move(moved, targets, 1 + max(self._running[slot].position for slot in moved))
            for slot, target in zip(moved, targets, strict=True):
                self._running[target] = self._release(slot)
                self._prefix_of.pop(target, None)
                if prefix := self._prefix_of.get(slot):
                    self._keep(prefix, target)

    def _keep(self, prefix: tuple[int, ...], slot: int) -> None:
        """Note that a slot has a prompt."""
        self._prefix_of[slot], self._slot_of[prefix] = prefix, slot

    def _prefill(self, slots_of: dict[tuple[int, ...], list[int]]) -> None:
        """Compute prompts up to their last token. Padding stands behind, where no token of a prompt looks."""
        from transformers import DynamicCache

        longest = max(map(len, slots_of))
        tokens_PT = torch.tensor([[*prefix, *[0] * (longest - len(prefix))] for prefix in slots_of])
        cache = DynamicCache()
        self._model(input_ids=tokens_PT.to(self._model.device), past_key_values=cache, use_cache=True, logits_to_keep=1)
        rows = [row for row, slots in enumerate(slots_of.values()) for _ in slots]
        self._slots.store([slot for slots in slots_of.values() for slot in slots], rows, cache)

    def _may_go_on(self, token: int) -> bool:
        """Whether a response may have this token and others behind it."""
        return 0 <= token < self._vocab_size and token not in self._eos_token_ids

    def _check_drafts(self) -> None:
        """Draw what drafts guess, the next part of each, as long as some of them are right."""
        most = max(1, min(_MOST_LOGITS // self._vocab_size, self._max_prefill_tokens))
        while drafted := [slot for slot, request in self._running.items() if request.draft]:
            drafted.sort(key=lambda slot: self._running[slot].num_to_check(most))
            while drafted:  # those that are alike in length together
                num_rows = max(1, most // self._running[drafted[-1]].num_to_check(most))
                self._check(drafted[-num_rows:], most)
                del drafted[-num_rows:]

    def _check(self, slots: list[int], most: int) -> None:
        """Draw every position of a part of some drafts, and keep what is drawn up to the first difference."""
        requests = [self._running[slot] for slot in slots]
        counts = [request.num_to_check(most) for request in requests]
        longest = max(counts)
        texts = [[request.last_token, *request.draft][:count] for request, count in zip(requests, counts, strict=True)]
        tokens_BT = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
        positions_B = torch.tensor([request.position for request in requests])
        logits_BTV = self._decoder.check(tokens_BT, positions_B, slots)
        for settings, of_settings in self._by_settings(slots).items():
            rows = [slots.index(slot) for slot in of_settings]
            logits_NV = torch.cat([logits_BTV[row, : counts[row]] for row in rows])
            uniforms = np.concatenate([requests[row].next_uniforms(counts[row]) for row in rows])
            tokens, logprobs = draw(logits_NV, torch.from_numpy(uniforms).to(logits_NV.device), settings)
            drawn = iter(zip(tokens.tolist(), logprobs.tolist(), strict=True))
            for row in rows:
                self._accept(requests[row], list(islice(drawn, counts[row])))

    def _accept(self, request: _Request, drawn: list[tuple[int, float]]) -> None:
        """Add what was drawn up to the first token that is not the draft's."""
        for place, (token, logprob) in enumerate(drawn):
            request.add(token, logprob)
            if place == len(request.draft) or token != request.draft[place]:
                request.draft = ()
                return
        request.draft = request.draft[len(drawn) :]

    def _by_settings(self, slots: Iterable[int]) -> dict[SamplingSettings, list[int]]:
        groups: dict[SamplingSettings, list[int]] = {}
        for slot in slots:
            groups.setdefault(self._running[slot].settings, []).append(slot)
        return groups

    def _append(self, slots: list[int], logits_BV: Tensor, settings: SamplingSettings) -> None:
        """Draw the next token of some slots."""
        requests = [self._running[slot] for slot in slots]
        uniforms = torch.from_numpy(np.concatenate([request.next_uniforms(1) for request in requests]))
        tokens, logprobs = draw(logits_BV[slots], uniforms.to(logits_BV.device), settings)
        for request, token, logprob in zip(requests, tokens.tolist(), logprobs.tolist(), strict=True):
            request.add(token, logprob)

    def _finished(self) -> list[Outcome]:
        found = []
        for slot, request in list(self._running.items()):
            is_ended = bool(request.response_ids) and request.response_ids[-1] in self._eos_token_ids
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
