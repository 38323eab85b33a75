"""Problem (P), and what is proven about it: dual bounds, restored points, optimality and infeasibility.

Others mainly use ``NearestMatrix`` (``nearest_matrix``), ``MatrixCertificate`` (``problem``) and ``MatrixResult`` (``result``).
"""
