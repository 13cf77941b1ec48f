"""``python -m ada_lightning.objective``."""

from ada_lightning.objective.command import main

if __name__ == "__main__":
    main()
