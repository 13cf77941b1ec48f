"""The application's Lightning callbacks, one class a file. They may import ``ada_lightning``, never the reverse.

Their name is ``ada_lightning.callbacks``, in a checkout, where they stand at its top, as in an installed package.
"""

if __name__ == "callbacks":  # a second copy of every class, which no ``isinstance`` would know
    raise ImportError(
        "the callbacks are ada_lightning.callbacks, in a checkout too: import them from there, and name them so in "
        "_target_: ada_lightning.callbacks.budget.Budget, for example"
    )
