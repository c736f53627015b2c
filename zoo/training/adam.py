"""Adam with decoupled weight decay on any tree of parameters, in JAX."""

import jax
import jax.numpy as jnp


def moments_of(params):
    return jax.tree_util.tree_map(lambda p: (jnp.zeros_like(p), jnp.zeros_like(p)), params)


def adam(params, moments, gradient, rate, step, decay=1e-3):
    """The parameters and moments after the step of that number, from 1."""

    def moved(p, g, m):
        mean, square = 0.9 * m[0] + 0.1 * g, 0.999 * m[1] + 0.001 * g * g
        change = mean / (1 - 0.9 ** step) / (jnp.sqrt(square / (1 - 0.999 ** step)) + 1e-8)
        return p - rate * (change + decay * p), (mean, square)

    leaves, tree = jax.tree_util.tree_flatten(params)
    results = [moved(p, g, m) for p, g, m in
               zip(leaves, tree.flatten_up_to(gradient), tree.flatten_up_to(moments))]
    return tree.unflatten([p for p, _ in results]), tree.unflatten([m for _, m in results])
