"""Where work runs: threads, processes, a dask cluster. What is lost with a worker is done again.

This package may import engine.
"""
