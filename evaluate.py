"""Evaluate: ``python evaluate.py checkpoint=runs/<name>``. See conf/evaluate.yaml for what can be changed."""

from __future__ import annotations

from ada_lightning.cli.evaluate import main

if __name__ == "__main__":
    main()
