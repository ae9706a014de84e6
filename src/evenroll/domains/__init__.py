"""Built-in domains, one file each: dynamics, exact value, the paper's settings, training recipe, Gymnasium id.

A file with a `NAME` is a domain, and needs no mention anywhere else; `registration.py` finds it. What a domain is stands in
`domain.py` and `environment.py`, and `tabular.py` makes one from the tables of a finite MDP.

This package may import policies, files and engine.
"""
