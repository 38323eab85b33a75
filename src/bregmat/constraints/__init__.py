"""What is asked of the learned matrix: constraint rows as data, and the table of relations that a row can state.

Others use ``Constraints`` (``constraints``), ``Relation`` (``relations``) and the readers of tables (``tables``, ``tuples``).
"""
