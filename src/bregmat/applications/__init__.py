"""Further problems that the methods of this library solve, each in a package of its own.

Nearest distributions, boosting, correlation matrices, balanced cuts, semidefinite programs, unfolding, softmax over groups.
"""
