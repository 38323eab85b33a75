"""The loop that drives every solver, and the result that it returns.

Others mainly use ``solve`` (``loop``) and ``Result``, ``MatrixResult``, ``Record`` and ``ExitReason`` (``result``).
"""
