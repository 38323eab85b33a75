"""Solvers of problem (P): frozen settings and a private state each; the loop is in :mod:`bregmat.engine.loop`."""
