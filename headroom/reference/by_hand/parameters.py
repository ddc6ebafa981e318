"""A layer's parameters: a flat dict of arrays, with the names that the same layer has in `headroom.reference`.

So the weights of a trained module are taken over in one line:

    parameters = {name: tensor.numpy() for name, tensor in block.state_dict().items()}
"""

import math
from typing import Any

import numpy as np

Parameters = dict[str, np.ndarray]
Saved = dict[str, Any]  # what a layer's forward keeps for its backward: arrays, and what its parts have saved


def part(parameters: Parameters, name: str) -> Parameters:
    """The parameters of one part of a layer, without its name: {"w_q.weight": …} out of {"attention.w_q.weight": …}."""
    start = name + "."
    return {key.removeprefix(start): array for key, array in parameters.items() if key.startswith(start)}


def named(name: str, parameters: Parameters) -> Parameters:
    """The way back from `part`: the same arrays under the names that they have in the whole layer."""
    return {f"{name}.{key}": array for key, array in parameters.items()}


def linear_parameters(n_in: int, n_out: int, rng: np.random.Generator) -> Parameters:
    """A new linear map: weight `(n_out, n_in)`, uniform within ±√(6 / (n_in + n_out)), and bias `(n_out,)`, 0.

    Source: Glorot & Bengio 2010, "Understanding the Difficulty of Training Deep Feedforward Neural Networks",
    equation 16.
    """
    limit = math.sqrt(6 / (n_in + n_out))
    return {"weight": rng.uniform(-limit, limit, (n_out, n_in)), "bias": np.zeros(n_out)}


def norm_parameters(d_model: int) -> Parameters:
    """A new LayerNorm: gamma `(d_model,)`, 1, and beta `(d_model,)`, 0."""
    return {"gamma": np.ones(d_model), "beta": np.zeros(d_model)}
