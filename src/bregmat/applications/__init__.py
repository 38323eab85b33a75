"""Further problems that the methods of this library solve, each in a room of its own that lists what others may use.

Nearest distributions, boosting, correlation matrices, balanced cuts, semidefinite programs, unfolding, softmax over groups.
"""
