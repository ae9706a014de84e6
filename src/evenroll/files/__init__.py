"""How files are read and written: everything is checked before it is unpacked, and written as a whole or not at all.

This package may import text. What a policy or a data set looks like inside its file is said beside the policy
(`policies.policy_files`) and beside the data (`collection.rollout_files`).
"""
