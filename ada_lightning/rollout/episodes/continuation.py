"""The tokens between two turns of the model: what a chat template puts around an answer of the environment.

The next turn is asked for by the exact tokens so far and these; nothing that was sampled is ever rendered again, which
would give other tokens than those whose log-probabilities are known (TRL#5224, verl#6501).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any

_WORDS = (
    "7", "42", "1434", "yes", "no", "The", "sum", "is", "x + y", "result:", "(a)", "don't", "if x > 3:", "tokens",
    "Answer", "0.5", "step", "call", "higher", "lower",
)  # fmt: skip
_NUM_CONVERSATIONS = 20
_MAX_TURNS = 4
_THINKING = "<think>\nFirst I add.\n</think>\n\n12"
"""An answer from which templates of reasoning models take a part away once another turn follows."""


class ContinuationError(ValueError):
    """Episodes cannot be extended token by token with this tokenizer and template."""


class Continuation:
    """Extends an episode: answer of the environment to tokens, scaffold of the chat template included.

    The scaffold is found by rendering conversations that differ in one answer of the environment. It is checked with
    the real tokenizer at construction, on 20 random conversations of up to 4 turns and one whose answers think aloud.
    The rendering of the whole must be the concatenation of the parts, token for token.

    Args:
        tokenizer: with its chat template.
        prompt_format: how prompts become tokens (:class:`~ada_lightning.data.formats.PromptFormat`).
        eos_token_ids: tokens that end a turn.
        role: of the environment's turns.

    Raises:
        ContinuationError: the parts are not what the whole is made of, with the reason and the first token that
            differs.
    """

    def __init__(self, tokenizer: Any, prompt_format: Any, eos_token_ids: Collection[int], role: str) -> None:
        self._tokenizer, self._format, self._role = tokenizer, prompt_format, role
        self._ends = frozenset(eos_token_ids)
        self._name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        try:
            prompt_format.prepare(tokenizer)  # an object of its own, which nobody else has prepared
        except ValueError as error:
            raise ContinuationError(str(error)) from error
        if not getattr(tokenizer, "chat_template", None):
            raise ContinuationError(
                f"the tokenizer {self._name} has no chat template, so turns cannot be told apart; choose an "
                "instruction-tuned model or set data/format=chat data.format.template_file, or use environment=none"
            )
        begin, answer = [{"role": "user", "content": "Begin."}], {"role": "assistant", "content": "42"}
        tails = [self._tail(begin, answer, text) for text in ("7", "no", "The")]
        self._before = _common(tails)
        self._after = _common([tail[len(self._before) :][::-1] for tail in tails])[::-1]
        self._check()

    def after(self, reply: str) -> list[int]:
        """Return the tokens from the end of a turn to the begin of the next one.

        Args:
            reply: of the environment. Control tokens written in it are ordinary text.
        """
        return [*self._before, *self._encoded(reply), *self._after]

    def _encoded(self, text: str) -> list[int]:
        encoding = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        return list(encoding["input_ids"])

    def _rendered(self, messages: Sequence[dict[str, str]]) -> list[int]:
        try:
            return list(self._format.token_ids(self._tokenizer, messages))
        except Exception as error:  # a template may refuse roles or orders of them, with an error of its own
            raise ContinuationError(
                f"the chat template of {self._name} refuses a turn of role {self._role!r} after the model's: {error}; "
                f"{self._way_out()}"
            ) from error

    def _tail(self, messages: list[dict[str, str]], answer: dict[str, str], reply: str) -> list[int]:
        """Tokens that follow the end of a turn of the model, up to the begin of its next turn."""
        prompt = self._rendered(messages)
        whole = self._rendered([*messages, answer, {"role": self._role, "content": reply}])
        if whole[: len(prompt)] != prompt:
            raise ContinuationError(self._difference(prompt, whole, "drops or changes what stood before"))
        rest = whole[len(prompt) :]
        end = next((place for place, token in enumerate(rest) if token in self._ends), None)
        if end is None:
            raise ContinuationError(
                f"the chat template of {self._name} ends no turn of the model with one of the tokens that end a "
                f"response, {sorted(self._ends)}; {self._way_out()}"
            )
        return rest[end + 1 :]

    def _check(self) -> None:
        generator = random.Random(0)
        for index in range(_NUM_CONVERSATIONS + 1):
            messages = [{"role": "user", "content": _text(generator)}]
            ids = self._rendered(messages)
            end = self._end_token(messages)
            for _ in range(generator.randint(1, _MAX_TURNS)):
                said = _text(generator) if index < _NUM_CONVERSATIONS else _THINKING
                reply = _text(generator)
                ids = [*ids, *self._tokenizer(said, add_special_tokens=False)["input_ids"], end, *self.after(reply)]
                messages += [{"role": "assistant", "content": said}, {"role": self._role, "content": reply}]
            whole = self._rendered(messages)
            if whole != ids:
                raise ContinuationError(self._difference(ids, whole, "renders earlier turns in another way"))

    def _end_token(self, messages: list[dict[str, str]]) -> int:
        turns = [{"role": "assistant", "content": "42"}, {"role": self._role, "content": "7"}]
        whole = self._rendered([*messages, *turns])
        return next(token for token in whole[len(self._rendered(messages)) :] if token in self._ends)

    def _difference(self, expected: Sequence[int], whole: Sequence[int], why: str) -> str:
        pairs = zip(expected, whole, strict=False)
        place = next((index for index, (own, its) in enumerate(pairs) if own != its), min(len(expected), len(whole)))
        own, its = (self._shown(ids[place : place + 1]) for ids in (expected, whole))
        return (
            f"the chat template of {self._name} {why} once the environment has answered: token {place} is {its} where "
            f"what was sampled has {own}. Log-probabilities would belong to tokens that nobody sampled; "
            f"{self._way_out()}"
        )

    def _shown(self, ids: Sequence[int]) -> str:
        return f"{self._tokenizer.decode(list(ids))!r} ({ids[0]})" if ids else "nothing"

    def _way_out(self) -> str:
        return (
            "give a template that only appends (data/format=chat data.format.template_file=...), another "
            "environment.role, or another model"
        )


def _common(sequences: Sequence[Sequence[int]]) -> list[int]:
    """Longest common beginning."""
    shared = []
    for tokens in zip(*sequences, strict=False):
        if len(set(tokens)) > 1:
            break
        shared.append(tokens[0])
    return shared


def _text(generator: random.Random) -> str:
    return " ".join(generator.choice(_WORDS) for _ in range(generator.randint(1, 6)))
