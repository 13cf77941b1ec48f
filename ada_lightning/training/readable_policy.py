"""Reads a training policy: log-probabilities, states and weights, and those it began with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from ada_lightning.core.records import Prompt, ResponseGroup
from ada_lightning.parallel.checkpoint_writer import write_checkpoint
from ada_lightning.parallel.gradients import whole_weights
from ada_lightning.parallel.ranks import Ranks
from ada_lightning.parallel.sharding import Sharding, run_inside
from ada_lightning.run.phase_clock import PhaseClock
from ada_lightning.training.attention import PackedAttention
from ada_lightning.training.batch import Microbatch
from ada_lightning.training.logprobs import chosen_logprobs
from ada_lightning.training.models.trained import TrainedParameters
from ada_lightning.training.packing import group_microbatch, group_microbatches, prompt_microbatches

T = TypeVar("T")


class ReadablePolicy(LightningModule):
    """A model that is sampled from and asked what it thinks; :class:`~.policy.PolicyModule` trains it.

    It is a :class:`~ada_lightning.core.protocols.part.PolicyView`.

    Args:
        temperature: of the training rollouts; log-probabilities are those of the tempered distribution.
        logprob_chunk_size: tokens whose logits are held at once, in the type of the matrix products.
        parameters: which parameters train.
    """

    model: Any
    """The causal language model, once it is loaded."""
    reference: Any
    """The frozen one that it began as, where something asks for it and ``parameters`` do not keep it."""

    def __init__(self, *, temperature: float, logprob_chunk_size: int, parameters: TrainedParameters) -> None:
        super().__init__()
        self.temperature = temperature
        self.logprob_chunk_size = logprob_chunk_size
        self.trained = parameters
        self.attention = PackedAttention()
        self.clock = PhaseClock()
        self.interrupt_check: Callable[[], None] = lambda: None
        """Called between microbatches; may raise to stop at a point where no weight is half-updated."""
        self.max_tokens_at_once = 1024
        """Tokens of prompts and responses that are read in one pass; a longer one alone."""
        self.ranks = Ranks()
        """The processes that train this policy."""
        self.sharding: Sharding | None = None
        """How the weights are spread over processes; None where each has them whole."""

    def spread(self, ranks: Ranks, sharding: Sharding | None = None) -> None:
        """Be trained by several processes. Called by their strategy, before the model is loaded.

        Args:
            ranks: the processes.
            sharding: how the weights are spread over them; None: each has them whole.
        """
        self.ranks, self.sharding = ranks, sharding

    def interrupt_with(self, check: Callable[[], None]) -> None:
        """Call ``check`` between microbatches; it may raise to stop where no weight is half-updated."""
        self.interrupt_check = check

    def read_at_once(self, max_tokens: int) -> None:
        """Read so many tokens of prompts and responses in one pass outside of updates; a longer one alone."""
        self.max_tokens_at_once = max_tokens

    @property
    def reads_hidden(self) -> bool:
        """Whether an update reads hidden states."""
        return False

    @property
    def entropy_has_gradient(self) -> bool:
        """Whether an update needs the gradient of entropies."""
        return False

    def check_logits(self) -> None:
        """Check that hidden state times output embedding really are this architecture's logits.

        Raises:
            ValueError: the architecture does more (soft caps, scaling), so chunked log-probabilities would be wrong.
        """
        tokens_1T = torch.arange(8, device=self.device)[None]
        with torch.no_grad(), self.trainer.precision_plugin.forward_context():
            whole = run_inside(self.model, lambda: self._logits(tokens_1T, in_parts=False))
            parts = run_inside(self.model, lambda: self._logits(tokens_1T, in_parts=True))
        if not torch.allclose(whole, parts, rtol=1e-3, atol=1e-3):
            raise ValueError(
                f"{type(self.model).__name__} changes its logits after the output embedding (by up to "
                f"{(whole - parts).abs().max():.3g}); training it needs its own log-probability function"
            )

    def packed(self, *groups: ResponseGroup) -> Microbatch:
        """Return what is kept of some groups, one document each, on the policy's device."""
        return group_microbatch(*groups).to(self.device)

    def token_logprobs(self, model: Any, microbatch: Microbatch) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy at every response token. Shapes ``(K,)``, float32, nats."""
        return self.states_and_logprobs(model, microbatch)[1:]

    def states_and_logprobs(self, model: Any, microbatch: Microbatch) -> tuple[Tensor | None, Tensor, Tensor]:
        """:meth:`hidden_states`, where :attr:`reads_hidden`, and :meth:`token_logprobs`, of one forward pass."""

        def forward() -> tuple[Tensor | None, Tensor, Tensor]:
            hidden_TH = self.hidden_states(model, microbatch)
            logprobs_K, entropy_K = self.logprobs_of(model, hidden_TH, microbatch)
            return hidden_TH if self.reads_hidden else None, logprobs_K, entropy_K

        return run_inside(model, forward)

    def hidden_states(self, model: Any, microbatch: Microbatch) -> Tensor:
        """Last hidden state of every packed token. Shape ``(T, H)``."""
        hidden_1TH: Tensor = model.base_model(
            input_ids=microbatch.input_ids_T[None],
            position_ids=microbatch.position_ids_T[None],
            use_cache=False,
            **self.attention.arguments(microbatch),
        ).last_hidden_state
        return hidden_1TH[0]

    def logprobs_of(self, model: Any, hidden_TH: Tensor, microbatch: Microbatch) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy at every response token. Shapes ``(K,)``, float32, nats."""
        return chosen_logprobs(
            hidden_TH[microbatch.predictor_K],
            microbatch.token_ids_K,
            model.get_output_embeddings(),
            temperature=self.temperature,
            chunk_size=self.logprob_chunk_size,
            entropy_gradient=self.entropy_has_gradient,
        )

    def represent(self, prompts: Sequence[Prompt]) -> Tensor:
        """The current policy's hidden state after each prompt's last token. Shape ``(P, H)``, float32, on the CPU."""
        return self._together("represent", self._represent, [tuple(prompt.prompt_ids) for prompt in prompts])

    def _together(self, name: str, work: Callable[[Any], T], argument: object) -> T:
        """Work with all who hold a part of the weights: they know it by name, see :meth:`setup`."""
        with self.ranks.command(name, argument) if self.sharding else nullcontext():
            return work(argument)

    @torch.no_grad()
    def _represent(self, token_ids: Sequence[tuple[int, ...]]) -> Tensor:
        rows: dict[int, Tensor] = {}
        with self.clock.phase("represent"), self.trainer.precision_plugin.forward_context():
            for chosen, microbatch in prompt_microbatches(token_ids, max_tokens=self.max_tokens_at_once):
                rows |= zip(chosen, self._last_states(microbatch), strict=True)
        return torch.stack([rows[index] for index in range(len(token_ids))])

    def forward_context(self) -> AbstractContextManager[None]:
        """Return the precision of the run's forward passes outside of a training step."""
        context: AbstractContextManager[None] = self.trainer.precision_plugin.forward_context()
        return context

    def _last_states(self, microbatch: Microbatch) -> Tensor:
        """Last hidden state at :attr:`~.batch.Microbatch.last_of_each`. Shape ``(B, H)``, float32, on the CPU."""
        on_device = microbatch.to(self.device)
        state_TH = run_inside(self.model, partial(self.hidden_states, self.model, on_device))
        return state_TH[microbatch.last_of_each].to("cpu", torch.float32)

    def _logits(self, tokens_1T: Tensor, *, in_parts: bool) -> Tensor:
        """Logits of the model as it computes them, or as the loss does: output embedding of the last hidden state."""
        if in_parts:
            hidden_1TH = self.model.base_model(input_ids=tokens_1T, use_cache=False).last_hidden_state
            logits_1TV: Tensor = self.model.get_output_embeddings()(hidden_1TH)
        else:
            logits_1TV = self.model(input_ids=tokens_1T, use_cache=False).logits
        return logits_1TV.float()

    @torch.no_grad()
    def next_token_logprobs(self, token_ids: Sequence[int], num_prefixes: int) -> Tensor:
        """Log-probability of every next token after the last prefixes of a text, the shortest first.

        Returns:
            Shape ``(num_prefixes, V)``, float32, nats, on the CPU, of the tempered distribution.
        """
        tokens_1T = torch.tensor([list(token_ids)], device=self.device)
        with self.trainer.precision_plugin.forward_context():
            logits_1TV = run_inside(self.model, lambda: self._logits(tokens_1T, in_parts=False))
        return (logits_1TV[0, -num_prefixes:] / self.temperature).log_softmax(-1).cpu()

    @torch.no_grad()
    def log_ratios(self, group: ResponseGroup) -> list[float]:
        """Log-probability of every kept response under the policy minus that under the initial one; nats.

        As many responses at once as :attr:`max_tokens_at_once` holds.
        """
        with_tokens = tuple(kept for kept in group.kept if kept.response.response_ids)
        found: list[float] = []
        with self.clock.phase("update"), self.forward_context():
            for part in group_microbatches(replace(group, kept=with_tokens), max_tokens=self.max_tokens_at_once):
                microbatch = part.to(self.device)
                now_K, _ = self.token_logprobs(self.model, microbatch)
                ratios_K = now_K - self._reference_logprobs(microbatch)
                of_each = ratios_K.split(part.num_tokens_B.long().tolist())
                found += torch.stack([ratios.sum() for ratios in of_each]).tolist()
                self.interrupt_check()
        sums = iter(found)
        return [next(sums) if kept.response.response_ids else 0.0 for kept in group.kept]

    @torch.no_grad()
    def last_states(self, group: ResponseGroup) -> list[list[float]]:
        """Last hidden state after the last token of every kept response. Shape ``(G, H)``.

        Several at once, as :meth:`log_ratios`; an empty one has the state after its prompt.
        """
        rows: list[list[float]] = []
        with self.clock.phase("update"), self.forward_context():
            for microbatch in group_microbatches(group, max_tokens=self.max_tokens_at_once):
                rows += self._last_states(microbatch).tolist()
                self.interrupt_check()
        return rows

    @torch.no_grad()
    def _reference_logprobs(self, microbatch: Microbatch) -> Tensor:
        """Log-probability of every response token under the frozen initial policy. Shape ``(K,)``, nats."""
        with self.trained.as_reference(self.model):
            reference = self.model if self.trained.has_reference else self.reference
            return self.token_logprobs(reference, microbatch)[0]

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Names as in the Hugging Face checkpoint, tied weights once: what an engine loads.

        Sharded weights are gathered one at a time, as they are asked for.
        """
        if self.sharding is None:
            yield from self.trained.named_weights(self.model)
        else:
            yield from self.ranks.stream("weights", whole_weights(self.model))

    def engine_weights(self, *, adapters_only: bool = False) -> Iterator[tuple[str, Tensor]]:
        """What the engine loads: :meth:`named_weights`, or the adapters alone where it has the rest."""
        self._leave_memory_to_engines()
        return self.trained.named_adapters(self.model) if adapters_only else self.named_weights()

    def _leave_memory_to_engines(self) -> None:
        """Give back what the update used: an engine of another process that slept on this GPU wakes up in it."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def save_weights(self, folder: Path) -> None:
        """Write the policy as a Hugging Face checkpoint in float32. Where weights are sharded, the leader does it."""
        if self.sharding is None:
            self.trained.write(self.model, folder)
        else:
            write_checkpoint(folder, self.model, self.named_weights())
