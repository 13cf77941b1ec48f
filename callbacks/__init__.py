"""The application's Lightning callbacks, one class a file. They may import ``ada_lightning``, never the reverse."""
