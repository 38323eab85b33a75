"""Constraints on the learned matrix: rows as data, and the table of relations that rows can state.

Other rooms use ``Constraints`` (``constraints``), ``Relation`` (``relations``) and the readers of tables (``tables``, ``tuples``).
"""
