"""A discrete-event model of an inference engine, behind the interface that the real collector drives."""
