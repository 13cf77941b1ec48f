"""Where the configuration stands that ships: ``conf/``, at the top of a checkout, inside of an installed package."""

from __future__ import annotations

from pathlib import Path

import ada_lightning

CONFIG_DIR = next(folder for place in ada_lightning.__path__ if (folder := Path(place).resolve() / "conf").is_dir())
