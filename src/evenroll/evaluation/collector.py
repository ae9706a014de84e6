"""For those who own their loop: `act`, `observe`, `result`. `evaluate` runs the same on Gymnasium environments.

collector = evenroll.Collector(policy, gamma=0.99)
while collector.episodes < 100:
    action = collector.act(observation)
    …
    collector.observe(reward, terminated, truncated, next_observation)
print(collector.result())
"""

from __future__ import annotations

from evenroll.collection.recorder import Recorder
from evenroll.estimators import Estimator
from evenroll.evaluation.evaluate import DEFAULT_ESTIMATOR, summarise
from evenroll.evaluation.result import Evaluation


class Collector(Recorder):
    """Chooses actions so that the data as a whole is on-policy, keeps the data, and says what it is worth."""

    def result(
        self, *, estimator: str | Estimator = DEFAULT_ESTIMATOR, confidence: float = 0.95, interval: str = "auto"
    ) -> Evaluation:
        """What `evaluate` would return of the data so far."""
        return summarise(self, estimator=estimator, confidence=confidence, interval=interval)
