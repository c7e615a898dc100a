# SPDX-License-Identifier: Apache-2.0
"""Special functions, by series and polynomials; importing this package registers them."""

from . import bessel, error_function, gamma, modified_bessel

__all__ = ["bessel", "error_function", "gamma", "modified_bessel"]
