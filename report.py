"""Compare runs on one page: ``python report.py runs/a runs/b --output report.html``."""

from __future__ import annotations

from ada_lightning.programs.report import main

if __name__ == "__main__":
    main()
