"""What every kind of problem shares: problems and certificates, the loop that drives every solver, records and the result.

Others mainly use ``Problem`` and ``Certificate`` (``problem``), ``solve``, ``RunLog`` and ``State`` (``loop``), ``Result``
(``result``), and ``Status``, ``ExitReason`` and ``Record`` (``status``).
"""
