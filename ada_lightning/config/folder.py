"""Where the configuration stands that ships: ``conf/``, at the top of a checkout, inside of an installed package.

Whoever knows the folder can compose what it does not have, too: options and experiments made from classes and recipes.
"""

from __future__ import annotations

from pathlib import Path

import ada_lightning
from ada_lightning.config.generated import register

CONFIG_DIR = next(folder for place in ada_lightning.__path__ if (folder := Path(place).resolve() / "conf").is_dir())
register()
