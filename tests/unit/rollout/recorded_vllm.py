"""The product's engine around a recorder in vLLM's place."""

from __future__ import annotations

from ada_lightning.rollout.engines.vllm_engine import VllmEngine
from ada_lightning.rollout.engines.vllm_weights import LoadedAdapters
from ada_lightning.rollout.engines.weight_transfer import Adapter, Reload


class RecordingEngine:
    """Stands for ``LLMEngine``: remembers the order of calls."""

    def __init__(self):
        self.calls = []
        self.model_config = type("Config", (), {"dtype": None})
        self.is_reset = True
        self.adapters = set()

    def sleep(self, level):
        self.calls.append(f"sleep {level}")

    def wake_up(self, tags):
        self.calls.append(f"wake {','.join(tags)}")

    def collective_rpc(self, method, kwargs=None):
        name = method if isinstance(method, str) else method.__name__
        self.calls.append((name, kwargs) if kwargs and "weights_iterator" not in kwargs else name)

    def add_lora(self, request):
        self.calls.append(f"add adapter {request.lora_int_id}")
        self.adapters.add(request.lora_int_id)

    def remove_lora(self, number):
        self.calls.append(f"remove adapter {number}")
        self.adapters.remove(number)

    def list_loras(self):
        return self.adapters

    def reset_prefix_cache(self):
        self.calls.append("reset prefixes")
        return self.is_reset

    def add_request(self, request_id, prompt, params, lora_request=None):
        self.calls.append("add request" + (f" of {lora_request.lora_int_id}" if lora_request else ""))


def recorded(sleep_level, weight_transfer=Reload()):  # noqa: B008 - frozen
    """An engine around the recorder, as its constructor would leave it."""
    engine = object.__new__(VllmEngine)
    engine.max_model_tokens, engine.max_num_seqs, engine.num_workers = 32, 8, 1
    engine.sleep_level, engine.weight_transfer = sleep_level, weight_transfer
    engine.takes_adapters = isinstance(weight_transfer, Adapter)
    engine._engine, engine._in_flight, engine._asleep, engine._has_weights = RecordingEngine(), set(), set(), True
    engine._adapters = LoadedAdapters(engine._engine)
    engine._eos_token_ids, engine._final_only = [2], None
    engine._sampling_params = lambda **settings: settings
    return engine
