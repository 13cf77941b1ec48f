from __future__ import annotations

import importlib.util
import socket
import warnings
from functools import partial

import pytest

from ada_lightning.rollout.engines import ray_pool
from ada_lightning.rollout.engines.process_pool import ProcessPool
from ada_lightning.rollout.engines.ray_pool import RayPool


@pytest.mark.parametrize(
    ("host", "option", "value"),
    [
        (RayPool, "num_engines", 0),
        (RayPool, "num_cpus", 0),
        (RayPool, "num_gpus", -1),
        (RayPool, "max_restarts", -1),
        (RayPool, "affinity", -1),
        (RayPool, "chunk_mib", 0),
        (RayPool, "start_timeout_s", 0),
        (RayPool, "call_timeout_s", float("inf")),
        (RayPool, "call_timeout_s", 1),
        (RayPool, "object_store_gib", 0.01),
        (RayPool, "address", "ray://head:10001"),
        (ProcessPool, "num_engines", 0),
        (ProcessPool, "num_threads", -1),
    ],
)
def test_a_value_out_of_range_is_named_with_all_others(host, option, value):
    with pytest.raises(ValueError, match=rf"rollout\.host\.{option} .*{value}"):
        host(**{option: value})
    with pytest.raises(ValueError, match=r"rollout\.host\.num_engines .*; rollout\.host\.affinity"):
        host(num_engines=0, affinity=-2)


def test_without_ray_the_check_before_a_model_loads_says_how_to_get_it(monkeypatch):
    host = RayPool()
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(ray_pool, "find_spec", lambda name: None if name == "ray" else find_spec(name))
    with pytest.raises(ValueError, match=r"not installed: pip install 'ada-lightning\[ray\]'"):
        host.check()


def test_a_ray_that_is_started_here_keeps_to_loopback_and_asks_for_a_token_unless_the_user_says_otherwise():
    variables = {}
    ray_pool.keep_to_this_machine(variables)
    assert variables["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert variables["RAY_AUTH_MODE"] == "token"
    assert len(variables["RAY_AUTH_TOKEN"]) == 64
    chosen = {"RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
    ray_pool.keep_to_this_machine(chosen)
    assert chosen == {"RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}


def test_a_host_with_other_versions_or_without_the_models_files_is_refused_by_its_name(tmp_path):
    opened, here = partial(dict, model_path=tmp_path / "gone"), ray_pool._versions()
    assert here["Python"].startswith("3.")
    assert "torch" in here
    other = here | {"torch": "0.1", "vllm": "0.2"}
    with pytest.raises(ValueError, match=r"host c has torch .*; install the same on all hosts") as refused:
        ray_pool._open_on("c", opened, other)
    assert f"has torch {here['torch']}, vllm {here.get('vllm', '(missing)')}, the trainer torch 0.1, vllm 0.2" in str(
        refused.value
    )
    with pytest.raises(ValueError, match=r"host c has no model at .*/gone; put it on a file system"):
        ray_pool._open_on("c", opened, here)
    assert ray_pool._open_on("c", partial(dict, model_path=tmp_path), here) == {"model_path": tmp_path}
    assert ray_pool._open_on("c", partial(dict, model_path="HuggingFaceTB/SmolLM2-135M"), here)


def test_who_has_no_token_is_told_how_to_get_one():
    assert "RAY_AUTH_TOKEN_PATH" in ray_pool._about_token({})
    assert not ray_pool._about_token({"RAY_AUTH_MODE": "token"})


def test_a_head_that_is_gone_is_said_once_and_once_that_it_is_back(monkeypatch):
    monkeypatch.setattr(ray_pool, "_HEAD_INTERVAL_S", 0.0)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    head = ray_pool._Head(f"127.0.0.1:{port}")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        head.look()
        listener.close()
        head.look()
        head.look()
        with socket.create_server(("127.0.0.1", port)):
            head.look()
            head.look()
    gone, back = (str(each.message) for each in warned)
    assert gone.startswith(f"Ray's head at 127.0.0.1:{port} does not answer. Ray ends this process within a minute")
    assert back == f"Ray's head at 127.0.0.1:{port} answers again"
