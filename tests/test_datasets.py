"""Data in files, what it says of itself, and the command line around it."""

from __future__ import annotations

import dataclasses
import json

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.collection.rollout_files import load_rollouts, save_minari, save_rollouts, with_gamma
from evenroll.domains.catalogue import get_domain
from evenroll.errors import DataError
from evenroll.evaluation.collector import Collector
from evenroll.evaluation.diagnosis import diagnose, repair_steps
from evenroll.policies import save_policy
from tests.test_cli import evenroll as command

ENVS = {"cartpole": "CartPole", "gridworld": "GridWorld", "cartpole-continuous": "CartPoleContinuous"}
COLUMNS = ("returns", "ends", "terminated", "log_weights", "observations", "actions", "rewards", "log_e", "log_b")


def collected(name: str, sampler: str = "auto", gamma: float = 0.9, seed: int = 0, **limits):
    env = gym.make(f"evenroll/{ENVS[name]}-v0")
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    collector = Collector(get_domain(name).policy(), sampler, gamma=gamma, seed=seed, **spaces)
    for _ in collect(collector, env, **limits):
        pass
    return collector, collector.rollouts(), env


@pytest.mark.parametrize("kind", ["parquet", "safetensors", "minari"])
@pytest.mark.parametrize("name", ENVS)
def test_what_is_written_is_read(tmp_path, name: str, kind: str) -> None:
    """Bit for bit; Minari, which has only whole trajectories and no discount, those."""
    collector, data, env = collected(name, steps=300)
    path = tmp_path / f"data.{kind}"
    if kind == "minari":
        save_minari(data, path, env.observation_space, env.action_space, collector.last_observations())
        again = load_rollouts(path, gamma=0.9)
        data = data.prefix(int(data.ends[-1]))
        if name == "cartpole":
            import minari

            episode = next(iter(minari.MinariDataset(path / "data").iterate_episodes()))
            assert len(episode.observations) == len(episode.actions) + 1 == data.lengths[0] + 1
            assert (episode.observations[-1] != episode.observations[-2]).all()
    else:
        save_rollouts(data, path)
        again = load_rollouts(path)
        assert again.unfinished == data.unfinished == 1
    assert (again.steps, again.gamma) == (data.steps, data.gamma)
    for column in COLUMNS:
        exact = 1e-12 if column in ("returns", "log_weights") else 0.0
        np.testing.assert_allclose(getattr(again, column), getattr(data, column), rtol=exact, atol=exact, err_msg=column)


def test_a_foreign_parquet_needs_four_columns(tmp_path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {"episode": [7, 7, 3], "observation": [[0.0, 1.0]] * 3, "action": [0, 1, 0], "reward": [1.0, 2.0, 4.0]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    data = load_rollouts(tmp_path / "a.parquet")
    np.testing.assert_array_equal(data.returns, [3.0, 4.0])
    np.testing.assert_array_equal(with_gamma(data, 0.5).returns, [2.0, 4.0])
    for change, text in (
        ({"reward": [1.0, float("nan"), 0.0]}, "not finite"), ({"episode": [1, 2, 1]}, "next to each other"),
    ):  # fmt: skip
        pq.write_table(pa.table({**table, **change}), tmp_path / "b.parquet")
        with pytest.raises(DataError, match=text):
            load_rollouts(tmp_path / "b.parquet")
    pq.write_table(pa.table({"episode": [1]}), tmp_path / "c.parquet")
    (tmp_path / "d.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "e.safetensors").write_bytes(b"no")
    (tmp_path / "f").mkdir()
    for name, text in (("c.parquet", "missing"), ("d.parquet", "not a Parquet"), ("e.safetensors", "not a readable"),
                       ("f", "not a Minari"), ("g.parquet", "no such file")):  # fmt: skip
        with pytest.raises(DataError, match=text):
            load_rollouts(tmp_path / name)


def test_nothing_is_written_and_read_too(tmp_path) -> None:
    _, data, _ = collected("cartpole", steps=30)
    for kind in ("parquet", "safetensors"):
        save_rollouts(data.prefix(0), tmp_path / f"data.{kind}")
        assert load_rollouts(tmp_path / f"data.{kind}").steps == 0


def test_minari_as_parquet_is_read_the_same(tmp_path) -> None:
    """Converted by Minari itself, as the docs say."""
    from minari.dataset.minari_storage import MinariStorage

    _, data, env = collected("cartpole", steps=100)
    save_minari(data, tmp_path / "a.minari", env.observation_space, env.action_space)
    old = MinariStorage.read(tmp_path / "a.minari" / "data")
    new = MinariStorage.new(
        tmp_path / "b", old.observation_space, old.action_space, data_format="parquet", jpeg_encoding=False
    )
    new.update_from_storage(old)
    a, b = (load_rollouts(tmp_path / name) for name in ("a.minari", "b"))
    for column in COLUMNS[:-2]:
        np.testing.assert_array_equal(getattr(a, column), getattr(b, column), err_msg=column)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ENVS)
def test_diagnosis_tells_on_policy_from_off_policy(name: str, base_seed: int) -> None:
    """On-policy the excess is χ² with D ≥ 45 degrees over D; balanced data has less, and a behaviour that is far off has
    more, in the place where it is off. P(false) ≤ 1e-5: on-policy above 2.2 with 5e-6, or below balanced data's (0.03 …
    0.12 in 15 runs) with less; off-policy (5 ± 0.6 at the least) is 5 standard deviations above 2.2.
    Catches a diagnosis that takes one kind for another."""
    domain = get_domain(name)
    env = gym.make(f"evenroll/{ENVS[name]}-v0")
    model = as_model(domain.policy(), env.observation_space, env.action_space)
    found = {}
    for sampler in ("os", "auto", "off:delta=0.9"):
        collector = Collector(model, sampler, gamma=domain.gamma, seed=base_seed)
        for _ in collect(collector, env, episodes=100):
            pass
        found[sampler] = diagnose(collector.rollouts(), model)
    off = found["off:delta=0.9"]
    assert found["auto"].excess < found["os"].excess < 2.2
    assert off.excess > 2.2
    assert found["auto"].repair_steps == 0 < off.repair_steps
    assert abs(off.cells[0].z) > off.chance
    if model.actions.choices:
        actions = [c for c in found["os"].cells if c.where == "anywhere"]
        assert all(abs(c.taken - c.expected) < 6 * 0.5 * found["os"].steps ** 0.5 for c in actions)


def test_repair_takes_longer_the_farther_off() -> None:
    assert repair_steps(0.9, 10, 1000, 50.0) == 0
    assert 0 < repair_steps(2.0, 10, 1000, 50.0) < repair_steps(20.0, 10, 1000, 50.0)
    assert repair_steps(1e6, 130, 100_000, 50.0) < 10_000_000


@pytest.mark.statistical
def test_repairing_a_data_set_makes_it_on_policy(base_seed: int) -> None:
    """150 off-policy episodes, then 100 of auto: of the excess 0.09 ± 0.04 is left (27 runs: 0.02 … 0.14).
    P(false) ≤ 1e-5: 0.5 is 10 standard deviations off. Catches data that is only diluted: 150/250 would be left, or more."""
    _, first, env = collected("cartpole", "off:delta=0.4", episodes=150, gamma=0.99, seed=base_seed)
    model = as_model(get_domain("cartpole").policy(), env.observation_space, env.action_space)
    before = diagnose(first, model)
    collector = Collector(model, "auto", gamma=0.99, initial=first, seed=base_seed)
    for _ in collect(collector, env, episodes=100):
        pass
    data = collector.rollouts()
    assert data.initial_episodes == 150
    assert diagnose(dataclasses.replace(data, initial_episodes=0), model).excess < 0.5 * before.excess


# ---- the command line ------------------------------------------------------------------------------------------------

MINE = """
import gymnasium as gym, numpy as np
def env():
    return gym.make("CartPole-v1")
def policy(observation):
    p = 1 / (1 + np.exp(-8 * (observation[2] + observation[3])))
    return [1 - p, p]
class Failing(gym.Wrapper):
    steps = 0
    def step(self, action):
        self.steps += 1
        x, r, *rest = super().step(action)
        return x, float("nan") if self.steps == 600 else r, *rest
def failing():
    return Failing(env())
"""


def test_a_day_on_the_command_line(tmp_path) -> None:
    """Collect off-policy data, diagnose it, repair it; evaluate; plot; fail and go on."""
    (tmp_path / "mine.py").write_text(MINE)
    ours = ("--policy", "mine:policy")
    run = command(
        "collect", "mine:env", *ours, "--sampler", "off:delta=0.4", "--episodes", "20", "--out", "a.parquet", cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    run = command("diagnose", "a.parquet", *ours, "--env", "CartPole-v1", "--json", "-", cwd=tmp_path)
    assert json.loads(run.stdout)["excess"] > 1.0
    run = command("evaluate", "CartPole-v1", *ours, "--episodes", "40", "--initial-data", "a.parquet", "--plot", "p.png",
                  "--json", "r.json", cwd=tmp_path)  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "undiscounted" in run.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["episodes"] == 60
    assert result["quantities"]["length"]["value"] == pytest.approx(result["steps"] / 60)
    assert (tmp_path / "p.png").stat().st_size > 5000
    run = command("evaluate", "mine:failing", *ours, "--episodes", "30", cwd=tmp_path)
    assert run.returncode == 2
    assert "reward nan: episode" in run.stderr
    assert "Traceback" not in run.stderr
    kept = load_rollouts(tmp_path / "mine-failing-partial.safetensors")
    assert 0 < kept.episodes < 30


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("evaluate", "CartPole-v1"), "--policy"),
        (("evaluate", "NoSuch-v0", "--policy", "p.safetensors"), "no environment"),
        (("evaluate", "CartPole-v1", "--policy", "nothing.zip"), "no such file"),
        (("evaluate", "CartPole-v1", "--policy", "nowhere:policy"), "cannot find"),
        (("evaluate", "Pendulum-v1", "--policy", "p.safetensors"), "4 numbers"),
        (("evaluate", "cartpole", "--envs", "2"), "for environments"),
        (("collect", "CartPole-v1", "--policy", "p.safetensors", "--out", "x.csv"), ".parquet"),
        (("diagnose", "none.parquet", "--policy", "p.safetensors"), "no such file"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, text: str) -> None:
    save_policy(get_domain("cartpole").policy(), tmp_path / "p.safetensors")
    run = command(*arguments, cwd=tmp_path)
    assert run.returncode == 2
    assert text in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_own_policy_file_on_a_vector_environment(tmp_path) -> None:
    save_policy(get_domain("cartpole").policy(), tmp_path / "p.safetensors")
    run = command(
        "evaluate", "CartPole-v1", "--policy", "p.safetensors", "--envs", "3", "--episodes", "7", "--json", "-", cwd=tmp_path
    )
    assert json.loads(run.stdout)["episodes"] == 7
    env = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3)
    assert evenroll.evaluate(env, tmp_path / "p.safetensors", episodes=7).value == json.loads(run.stdout)["value"]
