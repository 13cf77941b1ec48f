"""How a reward says that it has nothing to say."""

from __future__ import annotations


class NotApplicableError(Exception):
    """This reward does not apply to this prompt.

    By itself that is a failed grade, ``NotApplicableError``, and the response is left out of the evidence. A component
    of a weighted sum is left out of the sum.
    """
