"""Constraints drawn from labels: random pairs, comparisons of neighbours, and the dimension that neighbours need.

Others use ``constraints_from_labels`` (``labels``).
"""
