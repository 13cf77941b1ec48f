"""What train.py, evaluate.py, prepare.py and report.py do."""
