"""Problem (P), and what is proven about it: dual bounds, restored points, optimality and infeasibility.

Others mainly use ``NearestMatrix`` (``nearest_matrix``), ``Problem`` and ``Certificate`` (``problem``) and ``Status`` (``status``).
"""
