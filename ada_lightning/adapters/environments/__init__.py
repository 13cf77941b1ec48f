"""Environments of other libraries, one file each: GEM, TextArena, SkyRL-gym, OpenEnv (``docs/environments.md``)."""
