"""Names for Gymnasium; `import evenroll` registers them. Nothing is compiled until one is made."""

from __future__ import annotations

NAMES = {  # id: (domain, horizon)
    "evenroll/Bandit-v0": ("bandit", 1),
    "evenroll/GridWorld-v0": ("gridworld", 100),
    "evenroll/CartPole-v0": ("cartpole", 200),
    "evenroll/CartPoleContinuous-v0": ("cartpole-continuous", 200),
}


def register() -> None:
    """Make the environments known to Gymnasium; doing it twice changes nothing."""
    import gymnasium

    for name, (domain, horizon) in NAMES.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="evenroll.domains.gymnasium_env:DomainEnv",
                kwargs={"domain": domain},
                max_episode_steps=horizon,
            )
