"""Where work runs: in threads, in processes, or on a dask cluster. Work that is lost with a worker is done again.

This package may import engine.
"""
