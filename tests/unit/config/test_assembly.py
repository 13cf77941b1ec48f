from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from ada_lightning.config.assembly import SamplingParts, make_parts
from ada_lightning.core.records import SamplingSettings
from ada_lightning.core.step_records import StepSettings
from tests.unit.config.composing import composed


@dataclass(kw_only=True, eq=False)
class DataclassPart:
    """A part in the style that docs/extending.md recommends."""

    strength: float = 1.0


def test_a_part_that_is_a_dataclass_stays_one():
    cfg = OmegaConf.create(
        {"rate": 2.0, "group": {"mine": {"_target_": f"{__name__}.DataclassPart", "strength": "${rate}"}}}
    )
    parts = make_parts(cfg.group)
    assert list(parts) == ["mine"]
    assert isinstance(parts["mine"], DataclassPart)
    assert parts["mine"].strength == 2.0


@pytest.mark.parametrize(("environment", "is_another_job"), [("guess", True), ("none", False)])
def test_stored_episodes_are_not_continued_with_another_room(tmp_path, environment, is_another_job):
    """A response ends by its own limit, an episode by what is left of the model's tokens too."""
    parts = SamplingParts(SimpleNamespace(path=tmp_path), None, SimpleNamespace(settings=StepSettings(seed=0)))

    def settings(max_model_tokens):
        cfg = composed(f"environment={environment}", f"rollout.max_model_tokens={max_model_tokens}", program="prepare")
        return parts.job_settings(
            cfg,
            cfg.reward.reward,
            prompts=[],
            num_samples=4,
            stage="prepare",
            sampling=SamplingSettings(max_new_tokens=32),
        )

    assert (settings(320) != settings(1024)) == is_another_job
    assert settings(320) == settings(320)
