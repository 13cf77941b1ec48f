"""``python -m ada_lightning.audit``."""

from ada_lightning.audit.command import main

if __name__ == "__main__":
    main()
