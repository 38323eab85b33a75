"""Problem (P), and what is proven about it: dual bounds, restored points, optimality and infeasibility.

Others mainly use ``build_problem``, ``NearestMatrix`` and ``MatrixCertificate`` (``problem``), and ``MatrixResult`` (``result``).
"""
