"""From a prior to coordinates in which it is diagonal, and back to the matrix of the user.

Others use ``Factor`` and ``Coordinates`` (``coordinates``), ``iterate_at_prior`` (``iterates``) and ``widen_range`` (``priors``).
"""
