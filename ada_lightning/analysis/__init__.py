"""What runs and models are judged by: metrics, evaluation, reports, the statement of what a run optimises."""
