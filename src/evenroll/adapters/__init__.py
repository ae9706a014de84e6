"""Other people's things as evenroll needs them: spaces, networks, models, vector environments, names on a command line.

This package may import policies, domains, samplers and files.
"""
