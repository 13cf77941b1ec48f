"""A run as a folder and a process: lock, resume, checkpoints, signals, sweeps. Imports no other package of ours."""
