"""A library that takes longer to import than a response may take."""

import time

time.sleep(1.5)
