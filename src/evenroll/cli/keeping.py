"""Keeping data: what was collected before a fault is written to a file."""

from __future__ import annotations

from pathlib import Path

from evenroll.errors import CollectionFault, EvenrollError


def kept(fault: CollectionFault, name: str) -> EvenrollError:
    """The fault, with the finished episodes written to a file that the message names."""
    from evenroll.collection.rollout_files import save_rollouts

    if fault.rollouts is None or fault.rollouts.episodes == 0:
        return EvenrollError(str(fault))
    path = Path(f"{''.join(c if c.isalnum() or c in '-.' else '-' for c in name)}-partial.safetensors")
    save_rollouts(fault.rollouts, path)
    return EvenrollError(f"{fault}; written to {path}, to go on from with --initial-data")
