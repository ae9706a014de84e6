"""Policy files: what is written is read back; whatever is wrong is refused with one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from evenroll.errors import PolicyError
from evenroll.policies import MLP, TabularSoftmax, epsilon_greedy, load_policy, policy_digest, save_policy
from tests.helpers import MLP_CASES, make_mlp


def write(path, tensors, spec):
    metadata = None if spec is None else {"evenroll.policy": spec if isinstance(spec, str) else json.dumps(spec)}
    save_file({k: np.asarray(v, dtype=np.float32) for k, v in tensors.items()}, path, metadata=metadata)
    return path


@pytest.mark.parametrize("case", MLP_CASES)
def test_networks_survive_the_file(case: str, tmp_path) -> None:
    policy = make_mlp(np.random.default_rng(0), **MLP_CASES[case])
    path = tmp_path / "policy.safetensors"
    save_policy(policy, path)
    again = load_policy(path, dtype=np.float64)
    assert isinstance(again, MLP)
    np.testing.assert_array_equal(again.theta, policy.theta)
    np.testing.assert_array_equal(again.aux, policy.aux)
    np.testing.assert_array_equal(again.dims, policy.dims)


def test_tables_survive_the_file(tmp_path) -> None:
    policy = TabularSoftmax(np.random.default_rng(0).normal(size=(3, 4)))
    save_policy(policy, tmp_path / "p.safetensors")
    np.testing.assert_array_equal(load_policy(tmp_path / "p.safetensors").theta, policy.theta)
    with pytest.raises(PolicyError, match="never takes"):
        save_policy(epsilon_greedy([0], 2, 0.0), tmp_path / "q.safetensors")
    assert not (tmp_path / "q.safetensors").exists()


def test_defaults_of_a_gaussian_head_are_tanh_and_softplus(tmp_path) -> None:
    tensors = {
        "layers.0.weight": np.ones((3, 2)),
        "layers.0.bias": np.zeros(3),
        "head.weight": np.ones((2, 3)),
        "head.bias": [0, 0],
    }
    policy = load_policy(write(tmp_path / "p", tensors, {"kind": "mlp", "activation": "tanh", "head": "gaussian"}))
    assert (policy.mean, policy.scale, policy.action_dim) == ("tanh", "softplus", 1)


LINEAR = {"head.weight": np.ones((2, 3)), "head.bias": np.zeros(2)}
SOFTMAX = {"kind": "mlp", "activation": "relu", "head": "softmax"}
GAUSSIAN = {**SOFTMAX, "head": "gaussian"}
BROKEN = {
    "no metadata": (LINEAR, None, "no key"),
    "not json": (LINEAR, "{", "not JSON"),
    "not an object": (LINEAR, "[1]", "JSON object"),
    "unknown kind": (LINEAR, {"kind": "cnn"}, "kind must be"),
    "no kind": (LINEAR, {}, "kind must be"),
    "unknown entry": (LINEAR, {**SOFTMAX, "depth": 3}, "unknown entry"),
    "unknown activation": (LINEAR, {**SOFTMAX, "activation": "gelu"}, "activation must be"),
    "activation of a wrong type": (LINEAR, {**SOFTMAX, "activation": ["relu"]}, "activation must be"),
    "head missing": (LINEAR, {"kind": "mlp", "activation": "relu"}, "needs head"),
    "scale for softmax": (LINEAR, {**SOFTMAX, "scale": "softplus"}, "Gaussian head only"),
    "tensor missing": ({"head.weight": np.ones((2, 3))}, SOFTMAX, "head.bias is missing"),
    "tensor too many": ({**LINEAR, "extra": np.ones(1)}, SOFTMAX, "extra is not expected"),
    "layer skipped": ({**LINEAR, "layers.1.weight": np.ones((3, 3)), "layers.1.bias": np.ones(3)}, SOFTMAX, "not expected"),
    "shapes do not chain": (
        {**LINEAR, "layers.0.weight": np.ones((4, 2)), "layers.0.bias": np.zeros(4)},
        SOFTMAX,
        "head: weight",
    ),
    "bias of another length": ({"head.weight": np.ones((2, 3)), "head.bias": np.zeros(3)}, SOFTMAX, "do not fit"),
    "nan": ({"head.weight": np.full((2, 3), np.nan), "head.bias": np.zeros(2)}, SOFTMAX, "not finite"),
    "infinite": ({"head.weight": np.full((2, 3), np.inf), "head.bias": np.zeros(2)}, SOFTMAX, "not finite"),
    "half a norm": ({**LINEAR, "norm.mean": np.zeros(3)}, SOFTMAX, "norm.bias is missing"),
    "norm of another length": (
        {**LINEAR, **{f"norm.{p}": np.ones(2) for p in ("mean", "var", "weight", "bias")}},
        SOFTMAX,
        "norm.mean",
    ),
    "negative variance": (
        {**LINEAR, **{f"norm.{p}": -np.ones(3) for p in ("mean", "var", "weight", "bias")}},
        SOFTMAX,
        "negative variance",
    ),
    "odd softplus rows": ({"head.weight": np.ones((3, 3)), "head.bias": np.zeros(3)}, GAUSSIAN, "even number"),
    "log_std missing": (LINEAR, {**GAUSSIAN, "scale": "log_std"}, "log_std is missing"),
    "log_std of another length": ({**LINEAR, "log_std": np.zeros(3)}, {**GAUSSIAN, "scale": "log_std"}, "log_std must"),
    "one action": ({"head.weight": np.ones((1, 3)), "head.bias": np.zeros(1)}, SOFTMAX, "at least 2 actions"),
    "logits of rank 1": ({"logits": np.zeros(4)}, {"kind": "tabular-softmax"}, "logits must be"),
    "logits with extras": ({"logits": np.zeros((2, 2)), "x": np.ones(1)}, {"kind": "tabular-softmax"}, "not expected"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_with_one_line(case: str, tmp_path) -> None:
    tensors, spec, message = BROKEN[case]
    path = write(tmp_path / "policy.safetensors", tensors, spec)
    with pytest.raises(PolicyError, match=message) as caught:
        load_policy(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("policy.safetensors: ")


def test_what_is_no_safetensors_file_is_refused(tmp_path) -> None:
    for content in (b"", b"\x80\x04K\x01.", b"\xff" * 100, (10**15).to_bytes(8, "little") + b"{}"):
        path = tmp_path / "policy.safetensors"
        path.write_bytes(content)
        with pytest.raises(PolicyError, match=r"not a (readable )?safetensors file"):
            load_policy(path)
    with pytest.raises(PolicyError, match="no such file"):
        load_policy(tmp_path / "absent.safetensors")
    integers = tmp_path / "integers.safetensors"
    save_file(
        {"logits": np.zeros((2, 2), dtype=np.int64)}, integers, metadata={"evenroll.policy": '{"kind": "tabular-softmax"}'}
    )
    with pytest.raises(PolicyError, match="not floating point"):
        load_policy(integers)


def test_a_table_has_the_same_hash_on_every_processor() -> None:
    """Probabilities come from exp, whose last bit depends on the processor; a hash of them made stores and shipped values
    useless on another machine."""
    policy = TabularSoftmax(np.random.default_rng(0).normal(size=(3, 4)))
    elsewhere = TabularSoftmax(policy.logits)
    elsewhere.aux = np.nextafter(policy.aux, 1.0)
    assert policy_digest(elsewhere) == policy_digest(policy)
    other = policy.logits.copy()
    other[0, 0] = np.nextafter(other[0, 0], 9.0)
    assert policy_digest(TabularSoftmax(other)) != policy_digest(policy)
