"""The loop that drives every solver, and the result that it returns.

Others mainly use ``solve``, ``MatrixState`` and ``SolverWithNeeds`` (``loop``), and ``Result``, ``MatrixResult``, ``Record`` and
``ExitReason`` (``result``).
"""
