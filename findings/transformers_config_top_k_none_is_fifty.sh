#!/usr/bin/env bash
# transformers 5.19.0: top_k=None in a GenerationConfig cuts to 50 tokens, top_k=None in the call cuts nothing.
#
# Expected: None means the same in both places, which are two ways to set one thing. A config that prints no top_k
# samples from the whole vocabulary, as policy gradients and their log-probabilities assume.
# Observed: of 200 tokens `generate(generation_config=GenerationConfig(do_sample=True, top_k=None))` can sample 50, and
# `generate(do_sample=True, top_k=None)` 200. In the config None counts as not set, and gets 50 at the last moment.
# Nothing warns: the ratios of a policy gradient are then those of another distribution than the one sampled from.
# What to do: write top_k=0, which means no cut in both places.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    torch==2.13.0 transformers==5.19.0
cat > "$folder/check.py" <<'PYTHON'
import torch
import transformers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

NUM_TOKENS = 200
config = LlamaConfig(
    vocab_size=NUM_TOKENS,
    eos_token_id=None,
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=1,
    num_key_value_heads=1,
)
model = LlamaForCausalLM(config).eval()
prompt = torch.ones(1, 1, dtype=torch.long)
COMMON = {"do_sample": True, "max_new_tokens": 1, "output_scores": True, "return_dict_in_generate": True}


def num_possible(in_config, **top_k):
    """Tokens that the first step can sample."""
    settings = {"generation_config": GenerationConfig(**COMMON, **top_k)} if in_config else {**COMMON, **top_k}
    scores = model.generate(prompt, attention_mask=torch.ones_like(prompt), **settings).scores[0]
    return int(torch.isfinite(scores).sum())


print("transformers", transformers.__version__, "(expected: the whole vocabulary, four times)")
print("the config names top_k:", "top_k" in GenerationConfig(top_k=None).to_diff_dict())
found = {}
for value in (None, 0):
    found[value] = num_possible(False, top_k=value), num_possible(True, top_k=value)
    print(f"top_k={value}: in the call {found[value][0]} of {NUM_TOKENS} tokens, in a config {found[value][1]}")
raise SystemExit(found != {None: (200, 50), 0: (200, 200)})
PYTHON
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore "$folder/check.py"
