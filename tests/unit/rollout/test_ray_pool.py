from __future__ import annotations

import importlib.util

import pytest

from ada_lightning.rollout.engines import ray_pool
from ada_lightning.rollout.engines.host import EngineHost
from ada_lightning.rollout.engines.ray_pool import RayPool


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_engines", 0),
        ("num_cpus", 0),
        ("num_gpus", -1),
        ("max_restarts", -1),
        ("affinity", -1),
        ("chunk_mib", 0),
        ("start_timeout_s", 0),
        ("call_timeout_s", 1),
        ("object_store_gib", 0.01),
        ("address", "ray://head:10001"),
    ],
)
def test_a_value_out_of_range_is_named(option, value):
    with pytest.raises(ValueError, match=rf"rollout\.host\.{option} .*{value}"):
        RayPool(**{option: value})


def test_all_errors_come_at_once():
    with pytest.raises(ValueError, match=r"num_engines .*; .*affinity"):
        RayPool(num_engines=0, affinity=-2)


def test_without_ray_the_check_before_a_model_loads_says_how_to_get_it(monkeypatch):
    host = RayPool()
    assert isinstance(host, EngineHost)
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
