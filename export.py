"""Write a run's weights as a Hugging Face folder with a card: ``python export.py runs/<run>``."""

from __future__ import annotations

from ada_lightning.programs.export import main

if __name__ == "__main__":
    main()
