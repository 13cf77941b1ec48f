"""Pictures of README and ``docs``, as SVG files: ``python -m research.pictures``."""
