"""Seeded problems whose answer is known by construction; ``python -m suite`` from the folder ``tests`` (``make suite``) judges all."""
