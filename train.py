"""Train: ``python train.py +experiment=ada_seq_balance``. See conf/train.yaml for what can be changed."""

from __future__ import annotations

from ada_lightning.cli.train import main

if __name__ == "__main__":
    main()
