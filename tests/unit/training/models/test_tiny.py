import pytest

from ada_lightning.training.models.served import check_description, check_weights
from ada_lightning.training.models.tiny import TinyLlama


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return TinyLlama(cache_dir=tmp_path_factory.mktemp("cache")).prepare()


@pytest.fixture(scope="module")
def model(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder)


@pytest.fixture(scope="module")
def tokenizer(folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def test_folder_is_a_checkpoint_of_a_small_model_with_tied_embeddings(folder, model, tokenizer):
    check_description(folder, "tiny")
    check_weights(folder, "tiny")
    assert 500_000 < model.num_parameters() < 1_500_000
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == end
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id != end
    assert model.config.vocab_size == len(tokenizer) == 259


@pytest.mark.parametrize(
    "text", ["", " two  spaces ", "1 + 1 = 2\n\n\tx", "naïve 漢字 🙂", "don't , stop .", "".join(map(chr, range(128)))]
)
def test_every_text_survives_the_round_trip(tokenizer, text):
    token_ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(token_ids) == len(text.encode())
    assert tokenizer.decode(token_ids) == text


def test_chat_template_opens_the_assistants_turn(tokenizer):
    messages = [{"role": "user", "content": "2+2?"}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert text == "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
    token_ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert token_ids[:2] == [1, tokenizer.convert_tokens_to_ids("u")]
    assert token_ids.count(tokenizer.eos_token_id) == 1
    assert tokenizer.decode(token_ids, skip_special_tokens=True) == "user\n2+2?\nassistant\n"


def test_some_responses_end_and_some_are_truncated(model, tokenizer):
    """One token in 259 is the end: 1 - (258/259)**64 = 22 % of the responses of at most 64 tokens end by themselves."""
    prompt = tokenizer("<|im_start|>assistant\nsome text, 123", return_tensors="pt")["input_ids"]
    end_ratio = model(prompt).logits.softmax(dim=-1)[0, :, tokenizer.eos_token_id].mean().item()
    assert end_ratio == pytest.approx(1 / 259, rel=0.3)  # logits differ by about 0.2


def test_same_seed_gives_the_same_weights_and_leaves_torchs_generator_alone(folder, tmp_path):
    import torch

    before = torch.random.get_rng_state()
    again = TinyLlama(cache_dir=tmp_path).prepare()
    other = TinyLlama(cache_dir=tmp_path, seed=1).prepare()
    assert torch.equal(torch.random.get_rng_state(), before)
    weights = (folder / "model.safetensors").read_bytes()
    assert (again / "model.safetensors").read_bytes() == weights
    assert (other / "model.safetensors").read_bytes() != weights
    assert again.name == folder.name != other.name


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"num_layers": 0}, "num_layers must be at least 1; got 0"),
        ({"hidden_size": 100}, "hidden_size must be 128 or 256 with num_heads=4.* got 100"),
        ({"hidden_size": 96, "num_heads": 3}, "num_heads must be 1 or even.* got 3"),
    ],
)
def test_sizes_that_cannot_be_served_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        TinyLlama(**sizes)
