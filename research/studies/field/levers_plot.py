"""What each change to a method did, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from research import plotting

if TYPE_CHECKING:
    from research.studies.field.standing import Effect

_COLOR = "#1f6f8b"


def plot(found: Sequence[Effect], path: Path) -> None:
    """Draw how much higher or lower each changed method ends than the method as it is, with 95 % intervals."""
    rows: dict[str, list[Effect]] = {}
    for effect in found:
        rows.setdefault(effect.base, []).append(effect)
    rows = {base: effects for base, effects in rows.items() if len(effects) > 1}
    figure, panels = plotting.panels(
        len(rows),
        1,
        figsize=(8.6, sum(0.6 + 0.34 * len(effects) for effects in rows.values())),
        height_ratios=[len(effects) - 1 for effects in rows.values()],
        sharex=True,
        squeeze=False,
    )
    for panel, (base, (own, *changed)) in zip(panels[:, 0], rows.items(), strict=True):
        values = [effect.gain.value for effect in changed]
        errors = [
            [effect.gain.value - effect.gain.low for effect in changed],
            [effect.gain.high - effect.gain.value for effect in changed],
        ]
        panel.errorbar(values, range(len(changed)), xerr=errors, fmt="o", color=_COLOR, capsize=3)
        panel.axvline(0.0, color="black", linewidth=1)
        panel.set_yticks(range(len(changed)), [effect.text for effect in changed])
        panel.set_ylim(len(changed) - 0.5, -0.5)
        panel.set_title(f"{base}: {own.level:.3f} as it is", loc="left", fontsize=10)
        panel.grid(axis="x", alpha=0.25)
    panels[-1, 0].locator_params(axis="x", nbins=7)
    panels[-1, 0].set_xlabel("change of held-out avg@4 at the end")
    plotting.save(figure, path, 130)
