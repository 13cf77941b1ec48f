"""The programs as people start them, ``ada train ...`` or, in a checkout, ``python train.py ...``: both run these."""
