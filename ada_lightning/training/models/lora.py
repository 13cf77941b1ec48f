"""Which of a model's parameters train: low-rank adapters on frozen weights (LoRA), through peft."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ada_lightning.core.checks import refuse
from ada_lightning.core.options import option
from ada_lightning.training.models.trained import TrainedParameters

ADAPTER_FOLDER = "adapter"
_NAME = "default"


@option("parameters", "lora")
class LoraParameters(TrainedParameters):
    """Low-rank adapters train (peft), everything else is frozen: ``W + scale * B A`` in chosen linear layers.

    A learning rate about ten times that of full training is usual: ``optimizer.lr=1e-4``.

    Memory for gradients and optimiser states falls to the adapters' share. The frozen weights are kept once and serve
    as the reference of a KL term too, with the adapters switched off. B starts at 0, so the first policy is the initial
    model. The engine gets merged weights, made one layer at a time, or the adapters alone
    (``rollout/weight_transfer=adapter``); a checkpoint holds ``adapter/`` in peft's format, which peft, transformers
    and vLLM load on top of the initial model, and ``policy/`` with merged weights.

    There is no dropout: it would make the policy that trains another one than the engine's.

    Args:
        rank: of the update of each layer.
        alpha: numerator of the scale: ``alpha / rank``, or ``alpha / sqrt(rank)`` with ``rank_stabilized``.
        target_modules: names of layers to adapt, as they end in the model's module names (``[q_proj, v_proj]``);
            ``[all-linear]`` takes every linear layer but the output head, which is never adapted.
        rank_stabilized: divide by the root of the rank, which keeps the update's size the same for large ranks.
        seed: of the initial A.

    Raises:
        ValueError: a value out of range; all in one message.

    Source:
        LoRA, arXiv:2106.09685; rank-stabilised scale, arXiv:2312.03732. On how little capacity policy gradients need,
        and learning rates about ten times those of full training: Schulman et al., "LoRA Without Regret" (2025).
    """

    has_reference = True

    def __init__(
        self,
        *,
        rank: int = 32,
        alpha: float = 32.0,
        target_modules: Sequence[str] = ("all-linear",),
        rank_stabilized: bool = False,
        seed: int = 0,
    ) -> None:
        refuse(
            rank < 1 and f"parameters.rank must be at least 1; got {rank}",
            not 0 < alpha < math.inf and f"parameters.alpha must be positive and finite; got {alpha}",
            (isinstance(target_modules, str) or not list(target_modules))
            and f"parameters.target_modules must be a list of names; got {target_modules!r}: try [all-linear]",
        )
        self.rank = rank
        self.alpha = alpha
        self.target_modules = list(target_modules)
        self.rank_stabilized = rank_stabilized
        self.seed = seed

    def check(self) -> None:
        """Look for peft.

        Raises:
            ValueError: it is not installed.
        """
        if find_spec("peft") is None:
            raise ValueError("parameters=lora needs peft, which is not installed; pip install 'ada-lightning[lora]'")

    def weights_folder(self, initial: Path, checkpoint: Path | None) -> Path:
        """The initial weights, always: they never change."""
        return initial

    def attach(self, model: nn.Module, checkpoint: Path | None) -> None:
        """Add the adapters, with the checkpoint's values if there is one, and freeze everything else.

        Raises:
            ValueError: no layer has one of the names; or the checkpoint has no adapters, or others than these.
        """
        from peft import LoraConfig, inject_adapter_in_model

        config = LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            target_modules=self._targets(model),
            use_rslora=self.rank_stabilized,
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
        )
        model.requires_grad_(False)
        # A is drawn from torch's global generator, which belongs to the caller.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            inject_adapter_in_model(config, model, _NAME)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("lora_" in name)
        if checkpoint is not None:
            self._restore(model, checkpoint / ADAPTER_FOLDER)

    def hold_frozen(self, model: nn.Module, dtype: torch.dtype) -> None:
        """Hold the frozen weights in ``dtype``, if that loses no digit of them.

        That is half their memory, and no product casts them anew: of what is frozen autocast keeps no copy. Embeddings
        and norms stay as they are, since what they give is the residual stream.
        """
        for _, layer in _adapted_layers(model):
            weight = layer.get_base_layer().weight
            if torch.equal(held := weight.data.to(dtype), weight.data):
                weight.data = held

    def named_weights(self, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
        """Frozen weights in float32, merged with their adapters one layer at a time."""
        adapted = {f"{name}.base_layer.weight": layer for name, layer in _adapted_layers(model)}
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                continue
            weight = parameter.detach().to(torch.float32)
            if layer := adapted.get(name):
                with torch.no_grad():
                    weight = weight + layer.get_delta_weight(_NAME)
            yield name.replace(".base_layer.", "."), weight

    def named_adapters(self, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
        """A and scale * B of every adapted layer."""
        for name, layer in _adapted_layers(model):
            a, b = (getattr(layer, part)[_NAME].weight.detach() for part in ("lora_A", "lora_B"))
            yield f"base_model.model.{name}.lora_A.weight", a
            yield f"base_model.model.{name}.lora_B.weight", b * layer.scaling[_NAME]

    def write(self, model: Any, folder: Path) -> None:
        """With merged weights, so that it loads where any model does."""
        # On the CPU: on a GPU the merged layers would take the model's size once more.
        model.save_pretrained(folder, state_dict={name: weight.cpu() for name, weight in self.named_weights(model)})

    def save(self, model: nn.Module, checkpoint: Path) -> None:
        """Write ``adapter/`` as peft does."""
        from peft import get_peft_model_state_dict
        from safetensors.torch import save_file

        folder = checkpoint / ADAPTER_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        tensors = get_peft_model_state_dict(model, adapter_name=_NAME)
        # peft, transformers and vLLM look for the names that a PeftModel would give them.
        named = {f"base_model.model.{name}": tensor.detach().contiguous() for name, tensor in tensors.items()}
        save_file(named, folder / "adapter_model.safetensors", metadata={"format": "pt"})
        described: Any = model
        config = described.peft_config[_NAME]
        config.base_model_name_or_path = getattr(model, "name_or_path", "")
        config.inference_mode = True
        config.save_pretrained(str(folder))
        config.inference_mode = False

    @contextmanager
    def as_reference(self, model: nn.Module) -> Iterator[None]:
        """Switch the adapters off."""
        layers = [layer for _, layer in _adapted_layers(model)]
        for layer in layers:
            layer.enable_adapters(False)
        try:
            yield
        finally:
            for layer in layers:
                layer.enable_adapters(True)

    def _targets(self, model: nn.Module) -> list[str]:
        """Return the full names of the layers to adapt."""
        head = model.get_output_embeddings()  # type: ignore[operator]
        linear = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear) and layer is not head]
        if self.target_modules == ["all-linear"]:
            return linear
        adapted = {
            wanted: [name for name in linear if f".{name}".endswith(f".{wanted}")] for wanted in self.target_modules
        }
        at_head = [name for name, layer in model.named_modules() if layer is head]
        if of_head := [wanted for wanted in self.target_modules if f".{at_head[0]}".endswith(f".{wanted}")]:
            raise ValueError(
                f"parameters.target_modules names {', '.join(of_head)}, the output head, which is not adapted: where "
                "it is tied to the input embedding, merging its adapter would change the input too; leave it out"
            )
        if missing := [wanted for wanted, names in adapted.items() if not names]:
            endings = sorted({name.rsplit(".", 1)[-1] for name in linear})
            raise ValueError(
                f"parameters.target_modules names {', '.join(missing)}, and no linear layer of {type(model).__name__} "
                f"ends so; its layers end in {', '.join(endings)}"
            )
        return [name for name in linear if any(name in names for names in adapted.values())]

    def _restore(self, model: nn.Module, folder: Path) -> None:
        from peft import get_peft_model_state_dict, set_peft_model_state_dict
        from safetensors.torch import load_file

        file = folder / "adapter_model.safetensors"
        if not file.exists():
            raise ValueError(
                f"{folder.parent} has no adapters ({file} is missing): it was trained with parameters=all; continue it "
                "so, or start a new run"
            )
        tensors = {name.removeprefix("base_model.model."): tensor for name, tensor in load_file(file).items()}
        present = get_peft_model_state_dict(model, adapter_name=_NAME)
        own, saved = ({name: tuple(tensor.shape) for name, tensor in state.items()} for state in (present, tensors))
        if own != saved:
            name = min(set(own.items()) ^ set(saved.items()))[0]
            raise ValueError(
                f"the adapters in {folder} are not those of this run ({name} has shape {saved.get(name)} there and "
                f"{own.get(name)} here); continue with the rank and target_modules of the run, or start a new one"
            )
        self._check_scale(folder)
        set_peft_model_state_dict(model, tensors, adapter_name=_NAME)

    def _check_scale(self, folder: Path) -> None:
        """The same adapters with another scale are another policy: nothing learned it."""
        file = folder / "adapter_config.json"
        saved = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        for setting, key in (("alpha", "lora_alpha"), ("rank_stabilized", "use_rslora")):
            own = getattr(self, setting)
            if saved.get(key, own) != own:
                raise ValueError(
                    f"the adapters in {folder} were trained with parameters.{setting}={saved[key]}, and this run has "
                    f"{own}, which would change the policy's scale at once; continue with theirs, or start a new run"
                )


def _adapted_layers(model: nn.Module) -> Iterator[tuple[str, Any]]:
    from peft.tuners.lora import LoraLayer

    for name, module in model.named_modules():
        if isinstance(module, LoraLayer):
            yield name, module
