"""Action distributions: against torch, SciPy and the compiled pieces; and their scores under the distribution itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special, stats

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import PolicyError
from evenroll.policies import MLP, External, Policy, TabularSoftmax
from evenroll.policies.distributions import MEAN_LINKS, SCALE_LINKS, Categorical, Gaussian
from evenroll.samplers import OnPolicy

FACTORS = [(2,), (7,), (2, 3, 5)]
LINKS = list(itertools.product(MEAN_LINKS, SCALE_LINKS))


def some_logits(choices: tuple[int, ...], n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Logits, large ones among them, and actions."""
    rng = np.random.default_rng(len(choices))
    scale = rng.choice([0.1, 1.0, 30.0, 300.0], size=(n, 1))
    actions = np.stack([rng.integers(k, size=n) for k in choices], axis=1).astype(np.float64)
    return scale * rng.normal(size=(n, sum(choices))), actions


def some_outputs(dim: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of a Gaussian before its links, none of them near the floor of its scale, and actions."""
    rng = np.random.default_rng(dim)
    return rng.normal(size=(n, 2 * dim)) * rng.choice([0.1, 1.0, 3.0], size=(n, 1)), rng.normal(size=(n, dim))


# ---- against others ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choices", FACTORS)
def test_categorical_against_torch_and_scipy(choices: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    logits, actions = some_logits(choices)
    ours = Categorical(choices)
    parts = np.split(logits, np.cumsum(choices)[:-1], axis=1)
    expected = sum(
        torch.distributions.Categorical(logits=torch.tensor(part)).log_prob(torch.tensor(actions[:, i])).numpy()
        for i, part in enumerate(parts)
    )
    np.testing.assert_allclose(ours.log_probs(logits, actions), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        ours.probabilities(logits), np.concatenate([special.softmax(part, axis=1) for part in parts], axis=1), atol=1e-12
    )
    np.testing.assert_allclose(
        ours.normalised(logits),
        np.concatenate([special.log_softmax(part, axis=1) for part in parts], axis=1),
        rtol=1e-12,
        atol=1e-12,
    )
    assert (ours.log_probs(logits, ours.mode(logits)) >= ours.log_probs(logits, actions)).all()


@pytest.mark.parametrize(("mean", "scale"), LINKS)
@pytest.mark.parametrize("dim", [1, 3])
def test_gaussian_against_torch_and_scipy(mean: str, scale: str, dim: int) -> None:
    torch = pytest.importorskip("torch")
    outputs, actions = some_outputs(dim)
    ours = Gaussian(dim, mean, scale)
    x = torch.tensor(outputs)
    centre = torch.tanh(x[:, 0::2]) if mean == "tanh" else x[:, 0::2]
    spread = torch.nn.functional.softplus(x[:, 1::2], threshold=50) if scale == "softplus" else x[:, 1::2].exp()
    expected = torch.distributions.Normal(centre, spread).log_prob(torch.tensor(actions)).sum(dim=1).numpy()
    np.testing.assert_allclose(ours.log_probs(outputs, actions), expected, rtol=1e-12, atol=1e-12)
    density = stats.norm.logpdf(actions, ours.means(outputs), ours.scales(outputs)).sum(axis=1)
    np.testing.assert_allclose(ours.log_probs(outputs, actions), density, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ours.mode(outputs), ours.means(outputs))
    canonical = Gaussian(dim)
    np.testing.assert_allclose(canonical.log_probs(ours.normalised(outputs), actions), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(canonical.normalised(outputs), outputs)


@pytest.mark.parametrize(("mean", "scale"), LINKS)
def test_slopes_of_links_are_their_derivatives(mean: str, scale: str) -> None:
    x, step = np.linspace(-5.0, 5.0, 41), 1e-6
    for link in (MEAN_LINKS[mean], SCALE_LINKS[scale]):
        differences = (link.of(x + step) - link.of(x - step)) / (2 * step)
        np.testing.assert_allclose(link.slope(link.of(x)), differences, rtol=1e-7, atol=1e-9)


# ---- scores under their own distribution -------------------------------------------------------------------------


@pytest.mark.parametrize("choices", FACTORS)
def test_discrete_scores_have_mean_0_and_the_stated_variance(choices: tuple[int, ...]) -> None:
    """By enumeration of all actions."""
    logits = some_logits(choices)[0][:20]
    ours = Categorical(choices)
    every = np.array(list(itertools.product(*(range(k) for k in choices))), dtype=np.float64)
    for row in logits:
        rows = np.repeat(row[None], len(every), axis=0)
        p, scores = np.exp(ours.log_probs(rows, every)), ours.scores(rows, every)
        assert p.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(p @ scores, 0.0, atol=1e-12)
        np.testing.assert_allclose(p @ scores**2, ours.variances(row[None])[0], atol=1e-12)
    assert len(ours.score_names) == ours.size == sum(choices)
    assert ours.score_kinds == sum(choices) - len(choices)


@pytest.mark.parametrize(("mean", "scale"), LINKS)
def test_gaussian_scores_are_orthonormal(mean: str, scale: str) -> None:
    """By Gauss–Hermite quadrature, exact for polynomials of the action up to degree 39: mean 0, covariance 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    weights = weights / weights.sum()
    ours, outputs = Gaussian(2, mean, scale), some_outputs(2)[0][:10]
    grid = np.array(list(itertools.product(nodes, nodes)))
    p = np.prod(list(itertools.product(weights, weights)), axis=1)
    for row in outputs:
        rows = np.repeat(row[None], len(grid), axis=0)
        scores = ours.scores(rows, ours.means(rows) + ours.scales(rows) * grid)
        np.testing.assert_allclose(p @ scores, 0.0, atol=1e-9)
        np.testing.assert_allclose(scores.T @ (p[:, None] * scores), np.diag(ours.variances(row[None])[0]), atol=1e-9)
    assert ours.score_names == ("action0 higher", "action1 higher", "action0 wider", "action1 wider")
    assert ours.score_kinds == ours.size == 4


# ---- against the compiled pieces -----------------------------------------------------------------------------------


def network(**options: object) -> MLP:
    rng = np.random.default_rng(6)
    outputs = int(options.pop("outputs", 4))  # type: ignore[call-overload]
    log_std = rng.normal(size=outputs) if options.get("scale") == "log_std" else None
    layer = (rng.normal(size=(8, 3)), rng.normal(size=8))
    head = (rng.normal(size=(outputs, 8)), rng.normal(size=outputs))
    return MLP([layer], *head, log_std=log_std, dtype=np.float64, **options)  # type: ignore[arg-type]


POLICIES: dict[str, Policy] = {
    "softmax": network(),
    **{
        f"{mean}, {scale}": network(head="gaussian", mean=mean, scale=scale)
        for mean, scale in itertools.product(MEAN_LINKS, ("softplus", "log_std"))
    },
    "table": TabularSoftmax(np.random.default_rng(7).normal(size=(5, 4))),
    "one factor": External(3, choices=(4,)),
    "factors": External(3, choices=(2, 3)),
    "real": External(3, gaussian=2),
}


@pytest.mark.parametrize("kind", POLICIES)
def test_a_policy_and_its_distribution_agree(kind: str) -> None:
    """log π of the compiled pieces, from raw outputs and from the parameters of a batch."""
    policy, rng = POLICIES[kind], np.random.default_rng(8)
    distribution = policy.distribution
    assert distribution.size == policy.sizes.outputs
    assert distribution.action_dim == policy.action_dim
    observations = 3.0 * rng.normal(size=(20, policy.obs_dim))
    if policy.n_states is not None:
        observations = rng.integers(policy.n_states, size=(20, 1)).astype(np.float64)
    actions = rng.normal(size=(20, policy.action_dim))
    if isinstance(distribution, Categorical):
        actions = np.stack([rng.integers(k, size=20) for k in distribution.choices], axis=1).astype(np.float64)
    compiled = [policy.log_prob(o, a) for o, a in zip(observations, actions, strict=True)]
    raw = np.array([policy.outputs(o) for o in observations])
    np.testing.assert_allclose(distribution.log_probs(raw, actions), compiled, rtol=1e-12, atol=1e-12)
    described = distribution if isinstance(distribution, Categorical) else Gaussian(policy.action_dim)
    batch = policy.parameters_of_actions(observations)
    np.testing.assert_allclose(described.log_probs(batch, actions), compiled, rtol=1e-11, atol=1e-11)
    assert described.same(batch, distribution.normalised(raw), 1e-10)
    assert not described.same(batch, distribution.normalised(raw + np.arange(raw.shape[1]) / 10), 1e-10)


def test_the_smallest_scale_is_the_same_everywhere() -> None:
    """A softplus of −60 is 1e-26. The floor of 1e-6 stands in the compiled pieces, in NumPy and in torch."""
    pytest.importorskip("torch")
    import torch

    from evenroll.adapters.torch_copies import to_torch

    policy = MLP([], np.zeros((2, 1)), np.array([0.0, -60.0]), head="gaussian", dtype=np.float64)
    action = np.array([[3e-7]])
    expected = stats.norm.logpdf(3e-7, 0.0, 1e-6)
    assert policy.log_prob([0.0], action[0]) == pytest.approx(expected, rel=1e-12)
    outputs = policy.outputs_of_features(policy.features(np.zeros((1, 1))))
    np.testing.assert_allclose(policy.distribution.log_probs(outputs, action), expected, rtol=1e-12)
    np.testing.assert_allclose(policy.distribution.scores(outputs, action), [[0.3, (0.09 - 1.0) / np.sqrt(2)]])
    assert to_torch(policy)([0.0]).log_prob(torch.tensor(action[0])).item() == pytest.approx(expected, rel=1e-12)


def test_impossible_actions_and_networks_that_give_nan() -> None:
    logits = np.array([[0.0, -np.inf], [np.nan, 0.0]])
    ours = Categorical((2,))
    assert ours.log_probs(logits, np.array([[1.0], [0.0]])).tolist()[0] == -np.inf
    np.testing.assert_array_equal(ours.probabilities(logits[:1]), [[1.0, 0.0]])
    assert not ours.same(logits[1:], logits[1:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_outputs_keep_their_precision_but_scores_are_sums_to_be(dtype: type) -> None:
    logits, actions = some_logits((3,))
    assert Categorical((3,)).probabilities(logits.astype(dtype)).dtype == dtype
    assert Categorical((3,)).scores(logits.astype(dtype), actions).dtype == np.float64


# ---- against what is computed elsewhere ----------------------------------------------------------------------------


def on_policy_data(domain_name: str, policy: Policy | None, episodes: int, seed: int = 0):
    domain = get_domain(domain_name)
    policy = policy or domain.policy()
    driver = Driver(policy, OnPolicy(), (seed,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
    return driver.run(domain.environment(None), episodes=episodes), policy


def small_network(gaussian: bool = False) -> MLP:
    rng = np.random.default_rng(5)
    first, last = rng.normal(size=(8, 4)) / 2, rng.normal(size=(2, 8)) / 2
    head = "gaussian" if gaussian else "softmax"
    return MLP([(first, np.zeros(8))], last, np.zeros(2), dtype=np.float64, head=head)


def test_table_scores_are_those_of_the_policy() -> None:
    data, policy = on_policy_data("gridworld", None, 20)
    scores = policy.distribution.scores(policy.parameters_of_actions(data.observations), data.actions)
    total = np.zeros((policy.n_states, policy.n_actions))
    np.add.at(total, data.observations[:, 0].astype(int), scores)
    np.testing.assert_allclose(total.ravel(), policy.score_sum(data.observations, data.actions), atol=1e-9)


def test_head_scores_are_the_gradient_of_the_last_layer() -> None:
    policy = small_network()
    data, _ = on_policy_data("cartpole", policy, 5)
    psi = policy.features(data.observations)
    gradient = policy.score_sum(data.observations, data.actions)
    product = policy.distribution.scores(policy.outputs_of_features(psi), data.actions).T @ psi
    np.testing.assert_allclose(product[:, :8].ravel(), gradient[-18:-2], atol=1e-8)
    np.testing.assert_allclose(product[:, 8], gradient[-2:], atol=1e-8)


@pytest.mark.statistical
def test_gaussian_scores_of_data_have_mean_0_and_variance_1(base_seed: int) -> None:
    """20,000 steps at most, 4.5 standard errors on each of 4 numbers; x = z and (z² − 1)/√2 have E[x⁴] − 1 = 2 and 14.
    P(false) ≤ 5e-5, the last number's skewness included. Catches a scale of z that is 3 % off."""
    policy = small_network(gaussian=True)
    data, _ = on_policy_data("cartpole-continuous", policy, 600, base_seed)
    outputs = policy.outputs_of_features(policy.features(data.observations))
    scores = policy.distribution.scores(outputs, data.actions)[:20_000]
    assert len(scores) > 5000
    assert np.abs(scores.mean(axis=0)).max() < 4.5 / np.sqrt(len(scores))
    assert (np.abs((scores**2).mean(axis=0) - 1) < 4.5 * np.sqrt(np.array([2, 14]) / len(scores))).all()


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_a_log_std_that_would_not_be_used_is_refused() -> None:
    """Accepted, it was read by some parts of the package and not by others."""
    gaussian = {"layers": [], "head_weight": np.zeros((2, 3)), "head_bias": np.zeros(2)}
    with pytest.raises(PolicyError, match=r"softplus scale: leave log_std out, or pass .*scale=\"log_std\""):
        MLP(**gaussian, head="gaussian", scale="softplus", log_std=np.zeros(2))
    with pytest.raises(PolicyError, match="a softmax head has no scale: leave log_std out"):
        MLP(**gaussian, log_std=np.zeros(2))
    assert MLP(**gaussian, head="gaussian", scale="log_std", log_std=np.zeros(2)).action_dim == 2


def test_links_that_are_not_known_and_probabilities_of_real_actions() -> None:
    with pytest.raises(PolicyError, match="no links"):
        Gaussian(1, "tanh", "log_std")
    with pytest.raises(PolicyError, match="a density, not probabilities"):
        small_network(gaussian=True).probabilities(np.zeros(4))
