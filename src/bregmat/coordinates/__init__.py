"""From a prior to coordinates in which it is diagonal, and back to the matrix of the user.

Others use ``Factor``, ``Coordinates`` and ``iterate_at_prior`` (``priors``).
"""
