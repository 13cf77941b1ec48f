"""Each kind of vLLM's weight transfer moves the same tensors, and a vLLM that cannot work is named before it loads."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

import pytest
import torch

from ada_lightning.config.notices import settings_notices
from ada_lightning.config.view import ConfigView
from ada_lightning.rollout.engines import vllm_versions
from ada_lightning.rollout.engines.vllm_engine import VllmEngine
from ada_lightning.rollout.engines.weight_transfer import CudaIpc, Nccl
from tests.unit.config.composing import composed
from tests.unit.rollout.vllm_transfers import KINDS, installed, static_halves

WEIGHTS = [("a", torch.arange(6.0)), ("b", torch.ones(2, 3)), ("c", torch.zeros(4))]


@pytest.mark.parametrize("kind", KINDS)
def test_nccl_announces_each_chunk_and_sends_it(kind, monkeypatch):
    sent, calls = [], []
    installed(monkeypatch, kind, sent)
    sender = Nccl("10.0.0.1", 1234).connect(lambda *call: calls.append(call), num_workers=2)
    method, meeting = calls.pop(0)
    assert method == "init_weight_transfer_engine"
    assert (meeting["rank_offset"], meeting["world_size"]) == (1, 3)
    sender._chunk_bytes = 40  # "a" and "b" together, then "c"
    sender.send(iter(WEIGHTS))
    assert [name for name, _ in calls] == ["start_weight_update", *["update_weights"] * 2, "finish_weight_update"]
    announced = [argument for name, argument in calls if name == "update_weights"]
    assert [each["names"] for each in announced] == [["a", "b"], ["c"]]
    assert [each["shapes"] for each in announced] == [[[6], [2, 3]], [[4]]]
    assert [each["dtype_names"] for each in announced] == [["float32"] * 2, ["float32"]]
    assert [(meeting, is_packed) for meeting, is_packed, _ in sent] == [(("10.0.0.1", 1234, 3), True)] * 2
    assert [pair for *_, chunk in sent for pair in chunk] == WEIGHTS
    if kind is static_halves:  # each update says it; of the others the meeting
        assert all(each["packed"] for each in announced)
    sender.close()


@pytest.mark.parametrize("kind", KINDS)
def test_ipc_sends_an_iterator(kind, monkeypatch):
    calls = []
    installed(monkeypatch, kind, [])
    sender = CudaIpc(buffer_mib=3).connect(lambda *call: calls.append(call), num_workers=1)
    assert calls.pop(0) == ("init_weight_transfer_engine", {} if kind is static_halves else {"packed": True})
    sender.send(iter(WEIGHTS))
    assert [name for name, _ in calls] == ["start_weight_update", *["update_weights"] * 3, "finish_weight_update"]
    assert [argument["names"] for _, argument in calls[1:-1]] == [["a"], ["b"], ["c"]]
    assert {argument["ipc_handles"]["GPU-1"] for _, argument in calls[1:-1]} == {(3 * 2**20,)}
    sender.close()


def test_a_worker_that_refuses_ends_a_static_send(monkeypatch):
    installed(monkeypatch, static_halves, [])

    def call(method, argument):
        if method == "update_weights":
            raise RuntimeError("the worker has no such weight")

    sender = Nccl().connect(call, num_workers=1)
    with pytest.raises(RuntimeError, match="no such weight"):
        sender.send(WEIGHTS)


@pytest.mark.parametrize(
    ("version", "is_refused", "is_warned_of"),
    [("0.25.1", True, False), ("0.26.0", False, False), ("0.33.2+cu130", False, False), ("0.34.0rc1", False, True)],
)
def test_a_version_outside_of_the_range_is_named(version, is_refused, is_warned_of, monkeypatch):
    monkeypatch.setattr(vllm_versions, "installed_version", lambda: version)
    if is_refused:
        with pytest.raises(ValueError, match=r"vllm 0.25.1 is too old .* install vllm 0.26 to 0.33 .*=transformers"):
            VllmEngine.check_arguments(kv_cache_gib=1)
    else:
        VllmEngine.check_arguments(kv_cache_gib=1)
    warned = [notice for notice in settings_notices(ConfigView(composed())) if "vllm" in notice]
    assert len(warned) == is_warned_of
    assert not warned or warned[0].startswith("vllm 0.34.0rc1 is newer than what this engine was written for")
    assert not list(settings_notices(ConfigView(composed("rollout=transformers"))))


def test_the_installed_version_is_in_the_range():
    version = tuple(map(int, vllm_versions.installed_version().split(".")[:2]))
    assert vllm_versions.OLDEST <= version <= vllm_versions.NEWEST
    assert list(vllm_versions.version_errors("nccl")) == []


@pytest.mark.parametrize(
    ("text", "has_ray", "is_refused"),
    [
        ("import torch\nimport ray\n", False, True),
        ("import torch\nimport ray\n", True, False),
        ("import torch\nray = None\n", False, False),  # a build that was mended
        ("def get():\n    import ray\n", False, False),
    ],
)
def test_ipc_that_needs_ray_is_refused_before_it_is_imported(text, has_ray, is_refused, monkeypatch, tmp_path):
    file = tmp_path / "vllm" / "distributed" / "weight_transfer" / "ipc_engine.py"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    (tmp_path / "vllm" / "__init__.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    found = {"ray": ModuleSpec("ray", None) if has_ray else None, "vllm": find_spec("vllm")}
    monkeypatch.setattr(vllm_versions, "find_spec", found.__getitem__)
    assert list(vllm_versions.version_errors("nccl")) == []
    errors = list(vllm_versions.version_errors("ipc"))
    assert len(errors) == is_refused
    if is_refused:
        assert "imports ray for it, which is not installed; `pip install ray`" in errors[0]
        with pytest.raises(ValueError, match=r"weight_transfer=ipc: vllm .* imports ray"):
            VllmEngine.check_arguments(weight_transfer=CudaIpc())
