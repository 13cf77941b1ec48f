from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, log1p
from scipy.stats import beta, norm

from ada_lightning.methods.estimators.binomial_process import beta_of_logit, fit_laplace

POSITIVES = np.array([0.0, 4.0, 1.0, 3.0, 8.0])
SIZES = np.array([4.0, 4.0, 4.0, 8.0, 8.0])


def covariance(seed=0, size=7):
    rows = np.random.default_rng(seed).normal(size=(size, 3))
    return rows @ rows.T + np.eye(size)


def test_the_logits_found_are_the_most_likely_ones():
    prior = covariance()[:5, :5]
    precision = np.linalg.inv(prior)

    def loss(logits):
        likelihood = POSITIVES * logits - SIZES * (np.logaddexp(0.0, logits))
        return 0.5 * logits @ precision @ logits - likelihood.sum()

    best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x
    mean, _ = fit_laplace(prior, POSITIVES, SIZES)[0].predicted(prior, np.diag(prior))
    assert mean == pytest.approx(best, abs=1e-5)


def test_where_it_starts_makes_no_difference():
    prior = covariance()[:5, :5]
    fit, evidence = fit_laplace(prior, POSITIVES, SIZES)
    again, second = fit_laplace(prior, POSITIVES, SIZES, start_V=fit.logits_V + 0.5)
    assert again.logits_V == pytest.approx(fit.logits_V, abs=1e-6)
    assert second == pytest.approx(evidence, abs=1e-4)  # logits may be off by that much


@pytest.mark.parametrize(("positives", "size"), [(2, 4), (0, 4), (15, 16)])
def test_the_evidence_of_one_visit_is_the_integral_over_its_logit(positives, size):
    """Laplace's approximation is exact where the posterior is normal; of few responses it is off by some hundredths."""
    for scale in (0.5, 1.0, 2.0):
        _, evidence = fit_laplace(np.array([[scale**2]]), np.array([float(positives)]), np.array([float(size)]))

        def density(logit, scale=scale):
            return norm.pdf(logit, scale=scale) * np.exp(positives * logit - size * np.logaddexp(0.0, logit))

        exact, _ = quad(density, -15, 15)
        assert evidence == pytest.approx(np.log(exact), abs=0.08)


def test_predictions_are_those_of_the_dense_formula():
    whole = covariance()
    prior, cross, rest = whole[:5, :5], whole[5:, :5], whole[5:, 5:]
    fit, _ = fit_laplace(prior, POSITIVES, SIZES)
    at_visits, _ = fit.predicted(prior, np.diag(prior))
    rates = expit(at_visits)
    noise = np.diag(1 / (SIZES * rates * (1 - rates)))
    mean, variance = fit.predicted(cross, np.diag(rest))
    assert mean == pytest.approx(cross @ np.linalg.solve(prior, at_visits), abs=1e-6)
    expected = np.diag(rest - cross @ np.linalg.solve(prior + noise, cross.T))
    assert variance == pytest.approx(expected, abs=1e-6)


def test_equal_visits_are_one_with_all_responses():
    ones = np.ones((3, 3))
    apart, _ = fit_laplace(ones, np.array([1.0, 0.0, 3.0]), np.array([4.0, 4.0, 4.0]))
    together, _ = fit_laplace(ones[:1, :1], np.array([4.0]), np.array([12.0]))
    asked = np.array([0.5])
    assert np.array(apart.predicted(np.full((1, 3), 0.7), asked)) == pytest.approx(
        np.array(together.predicted(np.full((1, 1), 0.7), asked)), abs=1e-9
    )


def test_thousands_of_equal_answers_and_a_wide_prior_are_found():
    """A full Newton step from 0 would overshoot by far."""
    fit, _ = fit_laplace(np.array([[100.0]]), np.array([0.0]), np.array([5000.0]))
    mean, _ = fit.predicted(np.array([[100.0]]), np.array([100.0]))
    logit = float(mean[0])
    assert -logit / 100 - 5000 * expit(logit) == pytest.approx(0.0, abs=1e-6)  # gradient of the posterior


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 0.1), (-2.0, 1.0), (3.0, 4.0), (0.0, 14.0), (-6.0, 0.5)])
def test_the_beta_has_mean_and_variance_of_the_logistic_normal(mean, variance):
    def moment(power):
        density = norm(mean, variance**0.5)
        return quad(lambda x: expit(x) ** power * density.pdf(x), mean - 40, mean + 40, points=[mean], limit=500)[0]

    alpha, second = beta_of_logit(np.array([mean]), np.array([variance]))
    found = beta(alpha[0], second[0])
    assert found.mean() == pytest.approx(moment(1), rel=2e-3)
    assert found.var() == pytest.approx(moment(2) - moment(1) ** 2, rel=2e-2)  # 32 nodes


def test_what_is_known_for_certain_stays_finite():
    alpha, second = beta_of_logit(np.array([0.3, 40.0, -40.0]), np.zeros(3))
    assert np.isfinite(alpha).all()
    assert np.isfinite(second).all()
    assert (alpha > 0).all()
    assert (second > 0).all()
    assert alpha[1:].tolist() == pytest.approx(second[:0:-1].tolist())
    assert alpha[0] / (alpha[0] + second[0]) == pytest.approx(expit(0.3))
    assert log1p(alpha[0]) > 10
