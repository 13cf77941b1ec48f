"""Export weights: ``ada export runs/<run>``."""

from __future__ import annotations

from ada_lightning.programs.export import main

if __name__ == "__main__":
    main()
