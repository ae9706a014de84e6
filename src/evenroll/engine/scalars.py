"""Functions of one number that compiled pieces use: the exponential, link functions and the normal quantile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import FUSED, INTERPRETED

SQRT_2PI = 2.5066282746310002
LEAST_SOFTPLUS = 1e-6  # the smallest scale of a Gaussian, so that a density stays finite


@helper
def larger(a: Any, b: Any) -> Any:
    """The larger of two numbers. `max` means the same in compiled code, but each function that names it compiles it anew."""
    return b if b > a else a


@helper
def smaller(a: Any, b: Any) -> Any:
    """The smaller of two numbers."""
    return b if b < a else a


@helper
def whole(x: float) -> Any:
    """A number without its fraction."""
    return np.int64(x)


@helper
def softplus(x: float) -> float:
    """log(1 + eˣ) without overflow, and never below LEAST_SOFTPLUS."""
    value = x if x > 20.0 else math.log1p(math.exp(x))
    return larger(value, LEAST_SOFTPLUS)


@helper
def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


if INTERPRETED:

    def _exponent(x: float) -> float:
        return float(2.0 ** (x - _MAGIC))

else:

    @intrinsic
    def _exponent(typing_context: Any, x: Any) -> Any:
        """2ⁿ, where x = 1.5·2⁵² + n. The low bits of x are n; they are moved into the exponent of the result."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            bits = builder.bitcast(arguments[0], ir.IntType(64))
            shifted = builder.shl(bits, ir.Constant(ir.IntType(64), 52))
            return builder.bitcast(builder.add(shifted, ir.Constant(ir.IntType(64), 1023 << 52)), ir.DoubleType())

        return types.float64(types.float64), codegen


_MAGIC = 6755399441055744.0  # 1.5·2⁵²: adding it to a number rounds the number to an integer


@helper(fastmath=FUSED)
def exp_negative(x: float) -> float:
    """eˣ for x ≤ 0, accurate to about 1 ulp; it is 0 below −708.

    There are no branches, so that a softmax can compute several of them at the same time.
    eˣ = 2ⁿ eʳ, n = round(x / ln 2), |r| ≤ ln(2)/2, and eʳ is Taylor's series up to r¹³ / 13! (relative error 4e-18).
    """
    y = larger(x, -708.0)
    shifted = y * 1.4426950408889634 + _MAGIC
    n = shifted - _MAGIC
    r = (y - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5 + r * 0.16666666666666666)
    middle = (0.041666666666666664 + r * 0.008333333333333333) + r2 * (0.001388888888888889 + r * 0.0001984126984126984)
    high = (2.48015873015873e-05 + r * 2.7557319223985893e-06) + r2 * (2.755731922398589e-07 + r * 2.505210838544172e-08)
    top = 2.08767569878681e-09 + r * 1.6059043836821613e-10
    value = ((low + r4 * middle) + (r4 * r4) * (high + r4 * top)) * _exponent(shifted)
    return value if x > -708.0 else 0.0


@helper
def _poly(x: float, a: float, b: float, c: float, d: float, e: float, f: float, g: float, h: float) -> float:
    """a + b x + … + h x⁷."""
    return ((((((h * x + g) * x + f) * x + e) * x + d) * x + c) * x + b) * x + a


@helper
def normal_quantile(p: float) -> float:
    """Φ⁻¹(p), by ratios of polynomials for the centre and for the tails (Wichura 1988, AS 241); relative error 1e-16."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = _poly(
            r,
            3.3871328727963666080e0,
            1.3314166789178437745e2,
            1.9715909503065514427e3,
            1.3731693765509461125e4,
            4.5921953931549871457e4,
            6.7265770927008700853e4,
            3.3430575583588128105e4,
            2.5090809287301226727e3,
        )
        bottom = _poly(
            r,
            1.0,
            4.2313330701600911252e1,
            6.8718700749205790830e2,
            5.3941960214247511077e3,
            2.1213794301586595867e4,
            3.9307895800092710610e4,
            2.8729085735721942674e4,
            5.2264952788528545610e3,
        )
        return q * top / bottom
    r = math.sqrt(-math.log(p if q < 0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        top = _poly(
            r,
            1.42343711074968357734e0,
            4.63033784615654529590e0,
            5.76949722146069140550e0,
            3.64784832476320460504e0,
            1.27045825245236838258e0,
            2.41780725177450611770e-1,
            2.27238449892691845833e-2,
            7.74545014278341407640e-4,
        )
        bottom = _poly(
            r,
            1.0,
            2.05319162663775882187e0,
            1.67638483018380384940e0,
            6.89767334985100004550e-1,
            1.48103976427480074590e-1,
            1.51986665636164571966e-2,
            5.47593808499534494600e-4,
            1.05075007164441684324e-9,
        )
    else:
        r -= 5.0
        top = _poly(
            r,
            6.65790464350110377720e0,
            5.46378491116411436990e0,
            1.78482653991729133580e0,
            2.96560571828504891230e-1,
            2.65321895265761230930e-2,
            1.24266094738807843860e-3,
            2.71155556874348757815e-5,
            2.01033439929228813265e-7,
        )
        bottom = _poly(
            r,
            1.0,
            5.99832206555887937690e-1,
            1.36929880922735805310e-1,
            1.48753612908506148525e-2,
            7.86869131145613259100e-4,
            1.84631831751005468180e-5,
            1.42151175831644588870e-7,
            2.04426310338993978564e-15,
        )
    x = top / bottom
    return -x if q < 0 else x
