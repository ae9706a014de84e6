"""`evenroll evaluate`."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

import evenroll
from evenroll.domains.catalogue import get_domain
from evenroll.policies import save_policy
from tests.helpers import command


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("evaluate", "CartPole-v1"), "--policy"),
        (("evaluate", "CartPole-v1"), "CartPole-v1 has no policy of its own"),
        (("evaluate", "cartpol"), "did you mean cartpole?"),
        (("evaluate", "Cartpole-v1"), "did you mean CartPole-v1?"),
        (("evaluate", "CartPole-v1", "--policy", "mine.py"), "--policy mine:make_policy"),
        (("evaluate", "CartPole-v1", "--policy", "mine.py:x"), "mine.py:x: name what the file defines"),
        (("evaluate", "CartPole-v1", "--policy", "mine:x:.zip"), "mine:x:.zip: no such file"),  # :x: is no picture
        (("collect", "cartpole", "--policy", "p.safetensors", "--out", "x.parquet"), "such as evenroll/CartPole-v0"),
        (("evaluate", "NoSuch-v0", "--policy", "p.safetensors"), "no environment"),
        (("evaluate", "CartPole-v1", "--policy", "nothing.zip"), "no such file"),
        (("evaluate", "CartPole-v1", "--policy", "nowhere:policy"), "cannot find"),
        (("evaluate", "Pendulum-v1", "--policy", "p.safetensors"), "4 numbers"),
        (("evaluate", "cartpole", "--envs", "2"), "for environments"),
        (("collect", "CartPole-v1", "--policy", "p.safetensors", "--out", "x.csv"), ".parquet"),
        (("diagnose", "none.parquet", "--policy", "p.safetensors"), "no such file"),
        (("evaluate", "cartpole", "--episodes", "1000000000", "--plot", "p.docx"), "'docx' is not supported"),
        (("evaluate", "cartpole", "--episodes", "9", "--plot", "p.png"), "at least 10 episodes, not 9"),
        (("evaluate", "cartpole", "--episodes", "1000000000", "--json", "no/r.json"), "there is no directory no"),
        (("evaluate", "cartpole", "--episodes", "1000000000", "--report", "no/r.html"), "there is no directory no"),
        (("evaluate", "cartpole", "--episodes", "1000000000", "--report", "r.pdf"), "a name that ends in .html"),
        (("collect", "CartPole-v1", "--policy", "p.safetensors", "--out", "no/x.minari"), "there is no directory no"),
        (("evaluate", "Cartpole-v1", "--policy", "p.safetensors"), "Did you mean: `CartPole`?"),
        (("evaluate", "cartpole", "--episodes", "1000000000", "--interval", "bca"), "or --sampler os"),
        (("evaluate", "cartpole", "--episodes", "1000000000", "--interval", "tt"), "unknown interval 'tt'"),
        (
            ("evaluate", "cartpole", "--episodes", "1000000000", "--interval", "bernstein", "--sampler", "os"),
            "--bounds LOW HIGH",
        ),
        (("evaluate", "cartpole", "--episodes", "1000000000", "--bounds", "5", "1"), "not 5 and 1"),
        (
            (
                "evaluate",
                "cartpole",
                "--sampler",
                "os",
                "--interval",
                "bernstein",
                "--bounds",
                "0",
                "inf",
                "--episodes",
                "1000000000",
            ),
            "both finite",
        ),
        (("evaluate", "cartpole", "--sampler", "autos"), "did you mean auto?"),
        (("evaluate", "cartpole", "--estimator", "wiss"), "did you mean wis?"),
        (("evaluate", "cartpole", "--seed", "-1"), "--seed"),
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
        "evaluate",
        "CartPole-v1",
        "--policy",
        "p.safetensors",
        "--envs",
        "3",
        "--episodes",
        "7",
        "--resets",
        "9",
        "--json",
        "-",
        cwd=tmp_path,
    )
    assert json.loads(run.stdout)["episodes"] == 7
    env = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3)
    assert evenroll.evaluate(env, tmp_path / "p.safetensors", episodes=7, resets=9).value == json.loads(run.stdout)["value"]


def test_evaluate_json_to_standard_output_is_nothing_but_json() -> None:
    run = command("evaluate", "gridworld", "--sampler", "os", "--episodes", "200", "--json", "-")
    result = json.loads(run.stdout)
    assert run.returncode == 0
    assert result["low"] < result["value"] < result["high"]
    assert (result["episodes"], result["sampler"], result["estimator"]) == (200, "os", "score")
    assert result["terminated"] + result["truncated"] == 200


def test_evaluate_is_the_same_in_python() -> None:
    import evenroll as package

    run = command("evaluate", "gridworld", "--sampler", "os", "--episodes", "100", "--seed", "4", "--json", "-")
    assert json.loads(run.stdout)["value"] == package.evaluate("gridworld", sampler="os", episodes=100, seed=4).value
    assert package.evaluate("gridworld", sampler=package.ROS(5.0), steps=300).steps == 300


def test_a_report_of_the_command_that_repeats_it(tmp_path) -> None:
    """Beside JSON on standard output nothing else is printed; otherwise the file is named."""
    arguments = ("evaluate", "gridworld", "--episodes", "30", "--seed", "2", "--report", "a <b>.html")
    run = command(*arguments, "--json", "-", cwd=tmp_path)
    page = (tmp_path / "a <b>.html").read_text()
    found = evenroll.Evaluation.from_json(run.stdout)
    assert found.number() in page
    assert "evenroll evaluate gridworld --episodes 30 --seed 2 --report &#x27;a &lt;b&gt;.html&#x27; --json -" in page
    assert "report: a <b>.html" in command(*arguments, cwd=tmp_path).stdout
