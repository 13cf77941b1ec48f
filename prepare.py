"""Draw, grade and select prompts: ``python prepare.py band=hard``. See conf/prepare.yaml for what can be changed."""

from __future__ import annotations

from ada_lightning.cli.prepare import main

if __name__ == "__main__":
    main()
