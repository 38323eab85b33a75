"""Problems whose rows are split into shards: block by block in this process, on threads, or on a Dask cluster.

A shard is an ordinary operator with its losses. Solvers see one operator whose values are kept with the shards, and sums over all shards.
"""
