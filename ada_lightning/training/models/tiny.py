"""A language model small enough for tests, made on the spot: it needs no download and knows nothing."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.core.checks import refuse
from ada_lightning.training.models.cache import MadeModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

HEAD_SIZES = (32, 64)
"""Sizes of an attention head that every backend of vLLM knows, the CPU's included."""

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Padding, start and end of a turn: the ids of SmolLM2."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MAX_TOKENS = 8192
FORMAT = 2
"""Part of the cached folder's name. Raise it when what is written for the same arguments changes."""


class TinyLlama(MadeModel):
    """A Llama with random weights and one token per byte. About 0.8 million parameters by default.

    Its guesses are nearly uniform, so one token in 259 ends a response: of the responses allowed 64 tokens, a fifth
    end by themselves and the others are truncated.

    Args:
        seed: of the weights. Torch's own generator is left as it was.
        hidden_size: width of the residual stream.
        num_layers: transformer blocks.
        num_heads: query heads; keys and values have half as many, at least one.
        cache_dir: root of the cache; see :class:`MadeModel`.

    Raises:
        ValueError: a size is not positive, or gives heads that vLLM cannot serve.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        hidden_size: int = 128,
        num_layers: int = 4,
        num_heads: int = 4,
        cache_dir: str | Path | None = None,
    ) -> None:
        sizes = {"hidden_size": hidden_size, "num_layers": num_layers, "num_heads": num_heads}
        choices = [num_heads * head_size for head_size in HEAD_SIZES]
        refuse(
            *(size < 1 and f"{name} must be at least 1; got {size}" for name, size in sizes.items()),
            num_heads > 0
            and hidden_size not in choices
            and f"hidden_size must be {' or '.join(map(str, choices))} with num_heads={num_heads}, for heads that vLLM "
            f"can serve; got {hidden_size}",
            num_heads > 1
            and num_heads % 2 > 0
            and f"num_heads must be 1 or even, as two heads share keys and values; got {num_heads}",
        )
        self.seed = seed
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        identity = json.dumps({"seed": seed, "format": FORMAT, **sizes}, sort_keys=True)
        super().__init__(f"tiny-{hashlib.sha256(identity.encode()).hexdigest()[:12]}", cache_dir)

    def description(self) -> dict[str, Any]:
        """Say of ``config.json`` what decides which engines can serve the model."""
        return {
            "model_type": "llama",
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": max(1, self.num_heads // 2),
            "max_position_embeddings": MAX_TOKENS,
        }

    def build(self, folder: Path) -> None:
        """Draw the weights."""
        import torch
        from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

        tokenizer = byte_tokenizer()
        token_ids = {
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        }
        shape = {key: value for key, value in self.description().items() if key != "model_type"}
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            intermediate_size=3 * self.hidden_size,
            tie_word_embeddings=True,
            **shape,
            **token_ids,
        )
        with torch.random.fork_rng(devices=[]), contextlib.redirect_stderr(io.StringIO()):
            torch.manual_seed(self.seed)
            model = LlamaForCausalLM(config)
            model.generation_config = GenerationConfig(**token_ids)
            model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Build a tokenizer with one token per byte, so that every text survives the round trip."""
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as ByteLevelDecoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import PreTrainedTokenizerFast

    symbols = [*SPECIAL_TOKENS, *sorted(ByteLevel.alphabet())]
    tokenizer = Tokenizer(BPE(vocab={symbol: index for index, symbol in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    pad, _, end = SPECIAL_TOKENS
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=end,
        pad_token=pad,
        extra_special_tokens=[SPECIAL_TOKENS[1]],
        chat_template=CHAT_TEMPLATE,
        model_max_length=MAX_TOKENS,
        clean_up_tokenization_spaces=False,
    )
