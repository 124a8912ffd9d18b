"""The biLM in plain NumPy and float64, written from docs/BILM_TF.md: a second opinion.

Weights are the arrays of a bilm-tf hdf5 file by name, options its options.json.
"""

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def clip(x, bound):
    return x if bound is None else np.clip(x, -bound, bound)


def highway(x, weights, group):
    gate = sigmoid(x @ weights[f"{group}/W_carry"] + weights[f"{group}/b_carry"])
    transformed = x @ weights[f"{group}/W_transform"] + weights[f"{group}/b_transform"]
    return gate * np.maximum(transformed, 0) + (1 - gate) * x


def encode_tokens(ids, weights, options):
    """Character ids (..., C) to token vectors (..., P)."""
    options = options["char_cnn"]
    table = np.vstack([np.zeros_like(weights["char_embed"][:1]), weights["char_embed"]])
    characters = table[ids]
    activation = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[options["activation"]]
    parts = []
    for i, (width, _) in enumerate(options["filters"]):
        kernel = weights[f"CNN/W_cnn_{i}"][0]
        places = range(ids.shape[-1] - width + 1)
        windows = [characters[..., p : p + width, :] for p in places]
        sums = [np.einsum("...wd,wdn->...n", window, kernel) for window in windows]
        parts.append(activation(np.max(sums, axis=0) + weights[f"CNN/b_cnn_{i}"]))
    x = np.concatenate(parts, axis=-1)
    for i in range(options.get("n_highway") or 0):
        x = highway(x, weights, f"CNN_high_{i}")
    if "CNN_proj/W_proj" in weights:
        x = x @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]
    return x


def lstm_step(x, h, c, weights, cell, options):
    """One time step of one sentence: vectors in, the new (h, c) out."""
    z = np.concatenate([x, h]) @ weights[f"{cell}/W_0"] + weights[f"{cell}/B"]
    i, j, f, o = np.split(z, 4)
    c = clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), options.get("cell_clip"))
    h = sigmoid(o) * np.tanh(c)
    if f"{cell}/W_P_0" in weights:
        h = clip(h @ weights[f"{cell}/W_P_0"], options.get("proj_clip"))
    return h, c


def run_direction(x, weights, options, direction, states):
    """One direction over one sentence (n, P), in its own order; `states` holds (h, c) a layer."""
    outputs, states = [x], list(states)
    for layer in range(options["n_layers"]):
        cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        h, c = states[layer]
        ys = []
        for vector in outputs[-1]:
            h, c = lstm_step(vector, h, c, weights, cell, options)
            ys.append(h)
        states[layer] = (h, c)
        y = np.array(ys)
        residual = layer > 0 and options.get("use_skip_connections")
        outputs.append(y + outputs[-1] if residual else y)
    return np.stack(outputs), states


def zero_states(options, directions=2):
    zero = (np.zeros(options["projection_dim"]), np.zeros(options["dim"]))
    return [[zero] * options["n_layers"] for _ in range(directions)]


def run_bilm(x, lengths, weights, options, states=None, directions=2):
    """Token vectors (B, T, P) to all layers (B, L + 1, T, directions * P), and the final states.

    The backward direction reads each sentence's valid part reversed, and is reversed back.
    """
    options = options["lstm"]
    num_layers, dim = options["n_layers"], options["projection_dim"]
    outputs = np.zeros((len(x), num_layers + 1, x.shape[1], directions * dim))
    final = []
    for row, (sentence, n) in enumerate(zip(x, lengths)):
        before = zero_states(options, directions) if states is None else states[row]
        after = []
        for direction in range(directions):
            order = slice(None, None, -1 if direction else 1)
            vectors, state = run_direction(
                sentence[:n][order], weights, options, direction, before[direction]
            )
            part = slice(direction * dim, (direction + 1) * dim)
            outputs[row, :, :n, part] = vectors[:, order]
            after.append(state)
        final.append(after)
    return outputs, final


def mix(layers, mask, weights, gamma, layer_norm=False, use_top_only=False):
    """All layers (B, L + 1, T, D) and a mask (B, T) to mixed vectors (B, T, D)."""
    mask = mask[..., None]
    if layer_norm:
        layers = np.stack([normalize(layer, mask) for layer in layers.swapaxes(0, 1)], axis=1)
    if use_top_only:
        return gamma * layers[:, -1] * mask
    share = np.exp(np.asarray(weights) + 1.0 / layers.shape[1])
    share = share / share.sum()
    return gamma * np.einsum("l,bltd->btd", share, layers) * mask


def normalize(layer, mask):
    count = mask.sum() * layer.shape[-1]
    mean = (layer * mask).sum() / count
    variance = (((layer - mean) * mask) ** 2).sum() / count
    return (layer - mean) / np.sqrt(variance + 1e-12)


def random_weights(options, rng, scale=1.0, directions=2):
    """Random arrays of all names and shapes that the options ask for."""
    shapes = {}
    lstm, char_cnn = options["lstm"], options.get("char_cnn")
    dim, units = lstm["projection_dim"], lstm["dim"]
    if char_cnn:
        num_filters = sum(number for _, number in char_cnn["filters"])
        shapes["char_embed"] = (261, char_cnn["embedding"]["dim"])
        for i, (width, number) in enumerate(char_cnn["filters"]):
            shapes[f"CNN/W_cnn_{i}"] = (1, width, char_cnn["embedding"]["dim"], number)
            shapes[f"CNN/b_cnn_{i}"] = (number,)
        for i in range(char_cnn.get("n_highway") or 0):
            for part in ("carry", "transform"):
                shapes[f"CNN_high_{i}/W_{part}"] = (num_filters, num_filters)
                shapes[f"CNN_high_{i}/b_{part}"] = (num_filters,)
        if num_filters != dim:
            shapes["CNN_proj/W_proj"] = (num_filters, dim)
            shapes["CNN_proj/b_proj"] = (dim,)
    for direction in range(directions):
        for layer in range(lstm["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes[f"{cell}/W_0"] = (2 * dim, 4 * units)
            shapes[f"{cell}/B"] = (4 * units,)
            if units != dim:
                shapes[f"{cell}/W_P_0"] = (units, dim)
    # Kernels are scaled by what they sum over, so that values stay near 1.
    return {
        name: rng.normal(size=shape) * scale / np.sqrt(np.prod(shape[:-1]) or 1)
        for name, shape in shapes.items()
    }
