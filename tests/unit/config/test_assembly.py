from __future__ import annotations

from dataclasses import dataclass

from omegaconf import OmegaConf

from ada_lightning.config.assembly import make_parts


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
