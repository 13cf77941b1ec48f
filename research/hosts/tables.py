"""The tables of ``docs/cluster.md``."""

from __future__ import annotations

from research.hosts import faults, join, one_driver, soak, training

TABLES = {
    "hosts_join": join.runs_table,
    "hosts_refusals": join.refusals,
    "hosts_training": training.table,
    "hosts_lost": training.losses,
    "hosts_faults": faults.table,
    "hosts_fault_lines": faults.lines,
    "hosts_soak": soak.table,
    "hosts_one_driver": one_driver.table,
}
