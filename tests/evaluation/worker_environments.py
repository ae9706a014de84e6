"""Environments that workers make by the name of a function in this module, as a user's own would be."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import gymnasium as gym

ID = "evenroll/CartPole-v0"


class Dying(gym.Wrapper):  # type: ignore[type-arg]
    """The third reset of a process kills it, as long as the file that DYING_MARKER names is not there."""

    resets = 0

    def reset(self, **options: Any) -> Any:
        self.resets += 1
        marker = os.environ.get("DYING_MARKER")
        if self.resets == 3 and marker:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return super().reset(**options)


class Slow(gym.Wrapper):  # type: ignore[type-arg]
    """Every episode takes at least as many seconds as SLOW_SECONDS says."""

    def reset(self, **options: Any) -> Any:
        time.sleep(float(os.environ.get("SLOW_SECONDS", "0")))
        return super().reset(**options)


class Failing(gym.Wrapper):  # type: ignore[type-arg]
    """The fifth reset of a process fails."""

    resets = 0

    def reset(self, **options: Any) -> Any:
        self.resets += 1
        if self.resets == 5:
            raise OSError("the simulator is gone")
        return super().reset(**options)


def dying() -> Any:
    return Dying(gym.make(ID))


def slow() -> Any:
    return Slow(gym.make(ID))


def failing() -> Any:
    return Failing(gym.make(ID))
