"""Train: ``python train.py +experiment=ada_seq_balance``. See conf/train.yaml for what can be changed.

Read next: ``ada_lightning/programs/train.py``, what one job does. ``ada_lightning/cli/train.py`` only reads the line.
"""

from __future__ import annotations

from ada_lightning.cli.train import main

if __name__ == "__main__":
    main()
