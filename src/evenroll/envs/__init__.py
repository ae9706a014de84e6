"""The four built-in environments, compiled; `registration.py` names them for Gymnasium, `gym.py` wraps them."""
