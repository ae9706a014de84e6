"""Adapters turn other people's things into what evenroll needs: spaces, networks, models, vector environments, names.

This package may import policies, domains, samplers and files.
"""
