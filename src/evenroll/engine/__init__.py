"""From Python to machine code, without a word of reinforcement learning: pieces, named fields, random streams, registers.

This package imports nothing else of evenroll but errors.
"""
