"""Training in several processes: who leads, how weights are sharded, what travels between processes."""
