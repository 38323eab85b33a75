"""Constraints bound to points: the linear map from a matrix to the values of its rows, and its adjoint.

Others use ``bind`` (``binding``), which chooses the operator for each relation, and the class ``Operator`` (``linear_maps``).
"""
