"""Rows spread over shards, each an ordinary operator with its losses: in this process block by block, on threads, on a Dask cluster."""
