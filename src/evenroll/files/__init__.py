"""How files are read and written: everything is checked before it is unpacked, and written as a whole or not at all.

This package may import text. It does not know what is inside the files: `policies.policy_files` says how a policy is
stored, and `collection.rollout_files` says how data is.
"""
