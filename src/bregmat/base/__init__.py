"""Checks of arguments, points, linear algebra, threads, interruption, random pairs and the registry of named classes.

Every other room builds on this one. It knows nothing of metrics, kernels or constraints.
"""
