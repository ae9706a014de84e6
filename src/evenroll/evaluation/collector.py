"""A collector for those who write their own loop. `evaluate` runs the same loop on Gymnasium environments.

collector = evenroll.Collector(policy, gamma=0.99)
while collector.episodes < 100:
    action = collector.act(observation)
    …
    collector.observe(reward, terminated, truncated, next_observation)
print(collector.result())
"""

from __future__ import annotations

from evenroll.collection.saving import SavedRecorder
from evenroll.estimators.table import EstimatorLike
from evenroll.evaluation.evaluate import look_for
from evenroll.evaluation.looking import Seen, report
from evenroll.evaluation.result import Evaluation
from evenroll.samplers import OnPolicy

NAME = "own loop"


class Collector(SavedRecorder):
    """Chooses actions so that the data as a whole is on-policy, keeps the data, and says what the policy is worth."""

    def result(
        self,
        *,
        estimator: EstimatorLike | None = None,
        confidence: float = 0.95,
        interval: str = "auto",
        bounds: tuple[float, float] | None = None,
    ) -> Evaluation:
        """The evaluation of the data so far, as `evaluate` would return it.

        bounds  the smallest and the largest possible return, if they are known, as for `evaluate`
        """
        self.check_copy()
        policy = self.model.engine
        sampler = self.sampler if policy is not None else OnPolicy()
        described = self.model.described
        seen = Seen(
            self.rollouts(), policy, sampler, self.divergence, described, NAME, self.seed, self.remark,
            self.half_said, open_episodes=self.open_episodes, limit=self.horizon,
        )  # fmt: skip
        return report(seen, look_for(estimator, self.initial, interval, False, bounds, confidence), confidence)
