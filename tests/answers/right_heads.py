"""Right answers to lab 11 in the styles that people write. Every function here earns full marks."""

import copy
import math
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn

from tests.answers import answers

# --- induction_score ---------------------------------------------------------------------------------------------


@answers("induction_score")
def by_diagonal(weights, length):
    matches = weights.diagonal(1 - length, dim1=-2, dim2=-1)
    return matches[..., 1:].mean(dim=(0, -1))


@answers("induction_score")
def by_indices(weights, length):
    queries = torch.arange(length, weights.size(-1))
    return weights[:, :, :, queries, queries - length + 1].mean(dim=(0, 3))


@answers("induction_score")
def cut_first(weights, length):
    return weights[..., length:, 1:].diagonal(dim1=-2, dim2=-1).mean(-1).mean(0)


@answers("induction_score")
def in_loops(weights, length):
    batch, layers, heads, tokens, _ = weights.shape
    scores = torch.zeros(layers, heads, dtype=weights.dtype)
    for layer in range(layers):
        for head in range(heads):
            values = []
            for b in range(batch):
                for t in range(length, tokens):
                    values.append(weights[b, layer, head, t, t - length + 1])
            scores[layer, head] = torch.stack(values).mean()
    return scores


@answers("induction_score")
def with_a_mask(weights, length):
    n = weights.size(-1)
    back = torch.arange(n)[:, None] - torch.arange(n)
    wanted = (back == length - 1) & (torch.arange(n)[:, None] >= length)
    return (weights * wanted).sum((-2, -1)).mean(0) / wanted.sum()


@answers("induction_score")
def with_einsum(weights, length):
    later = weights[:, :, :, length:, 1 : weights.size(-1) - length + 1]
    return torch.einsum("blhtt->lh", later) / (later.size(0) * later.size(-1))


@answers("induction_score")
def gathered(weights, length):
    tokens = weights.shape[-1]
    keys = torch.arange(length, tokens) - length + 1
    rows = weights[..., length:, :]
    index = keys[:, None].expand(*rows.shape[:-1], 1)
    return rows.gather(-1, index).squeeze(-1).mean((0, -1))


@answers("induction_score")
def stacked_over_time(weights, length):
    found = [weights[..., t, t + 1 - length] for t in range(length, weights.shape[3])]
    return torch.stack(found).mean(dim=(0, 1))


@answers("induction_score")
def detached_copy(weights, length):
    weights = weights.detach().clone()
    return torch.diagonal(weights, offset=-(length - 1), dim1=3, dim2=4)[:, :, :, 1:].mean(3).mean(0)


# --- ablate ------------------------------------------------------------------------------------------------------


@answers("ablate")
def with_a_hook(model, ids, layer, head):
    attention = model.blocks[layer].attention

    def hook(_module, inputs):
        heads = list(inputs[0].chunk(attention.n_heads, dim=-1))
        heads[head] = torch.zeros_like(heads[head])
        return torch.cat(heads, dim=-1)

    handle = attention.w_o.register_forward_pre_hook(hook)
    try:
        return model(ids)
    finally:
        handle.remove()


@answers("ablate")
def columns_and_back(model, ids, layer, head):
    w_o = model.blocks[layer].attention.w_o
    d_head = w_o.in_features // model.blocks[layer].attention.n_heads
    columns = slice(head * d_head, (head + 1) * d_head)
    with torch.no_grad():
        kept = w_o.weight[:, columns].clone()
        w_o.weight[:, columns] = 0
        logits = model(ids)
        w_o.weight[:, columns] = kept
    return logits


@answers("ablate")
def on_a_copy(model, ids, layer, head):
    other = copy.deepcopy(model)
    attention = other.blocks[layer].attention
    d = attention.w_o.weight.shape[1] // attention.n_heads
    attention.w_o.weight.data[:, d * head : d * head + d] = 0.0
    return other(ids)


@answers("ablate")
def the_forward_again(model, ids, layer, head):
    x = model.embed(ids) + model.positions(torch.arange(ids.shape[1]))
    for i, block in enumerate(model.blocks):
        attention, read = block.attention, block.norm(x)
        outputs = attention.weights(read) @ attention.split(attention.w_v(read))
        if i == layer:
            keep = torch.ones(attention.n_heads)
            keep[head] = 0
            outputs = outputs * keep[:, None, None].to(outputs)
        x = x + attention.w_o(outputs.transpose(1, 2).flatten(-2))
    return model.unembed(model.norm(x))


@answers("ablate")
def taken_off_after_w_o(model, ids, layer, head):
    x = model.start(ids)
    for i, block in enumerate(model.blocks):
        normed = block.norm(x)
        added = block.attention(normed)
        if i == layer:
            a = block.attention
            out = (a.weights(normed) @ a.split(a.w_v(normed)))[:, head]
            d = out.size(-1)
            added = added - out @ a.w_o.weight[:, head * d : (head + 1) * d].T
        x = x + added
    return model.unembed(model.norm(x))


@answers("ablate")
def values_off(model, ids, layer, head):
    """Without values there is no output: weight and bias of W_V."""
    other = copy.deepcopy(model)
    w_v = other.blocks[layer].attention.w_v
    rows = torch.arange(w_v.out_features).chunk(other.blocks[layer].attention.n_heads)[head]
    with torch.no_grad():
        w_v.weight[rows] = 0
        w_v.bias[rows] = 0
    return other(ids)


@answers("ablate")
def hook_on_the_values(model, ids, layer, head):
    attention = model.blocks[layer].attention

    def hook(module, args, output):
        output = output.clone()
        output.unflatten(-1, (attention.n_heads, -1))[..., head, :] = 0
        return output

    handle = attention.w_v.register_forward_hook(hook)
    logits = model(ids)
    handle.remove()
    return logits


@answers("ablate")
def another_forward(model, ids, layer, head):
    """The layer's forward is replaced, and put back."""
    attention = model.blocks[layer].attention

    def forward(x):
        heads = attention.weights(x) @ attention.split(attention.w_v(x))
        heads = torch.cat([heads[:, :head], torch.zeros_like(heads[:, head : head + 1]), heads[:, head + 1 :]], dim=1)
        return attention.w_o(heads.transpose(1, 2).flatten(-2))

    attention.forward = forward
    try:
        with torch.no_grad():
            return model(ids)
    finally:
        del attention.forward


@answers("ablate")
def of_its_class(model, ids, layer, head):
    """The class's own method is replaced for a moment, for one object alone."""
    wanted, kind = model.blocks[layer].attention, type(model.blocks[layer].attention)
    before = kind.split

    class Off(kind):
        def forward(self, x):
            heads = self.weights(x) @ before(self, self.w_v(x))
            heads[:, head] = 0
            return self.w_o(heads.transpose(1, 2).flatten(-2))

    wanted.__class__ = Off
    logits = model(ids)
    wanted.__class__ = kind
    return logits


@answers("ablate")
def with_functional_call(model, ids, layer, head):
    name = f"blocks.{layer}.attention.w_o.weight"
    changed = model.get_parameter(name).detach().clone()
    d = changed.size(1) // model.blocks[layer].attention.n_heads
    changed[:, head * d : (head + 1) * d] = 0
    return torch.func.functional_call(model, {name: changed}, (ids,))


@answers("ablate")
def by_state_dict(model, ids, layer, head):
    saved = copy.deepcopy(model.state_dict())
    weight = model.state_dict()[f"blocks.{layer}.attention.w_o.weight"]
    n_heads = model.blocks[layer].attention.n_heads
    weight.view(weight.size(0), n_heads, -1)[:, head] = 0
    logits = model(ids)
    model.load_state_dict(saved)
    return logits


# --- patch -------------------------------------------------------------------------------------------------------


@answers("patch")
def two_hooks(model, ids, donor_ids, layer, head):
    attention = model.blocks[layer].attention
    d_head = attention.w_o.in_features // attention.n_heads
    columns = slice(head * d_head, (head + 1) * d_head)
    kept = {}

    def keep(_module, inputs):
        kept["head"] = inputs[0][..., columns].clone()

    def put(_module, inputs):
        merged = inputs[0].clone()
        merged[..., columns] = kept["head"]
        return merged

    handle = attention.w_o.register_forward_pre_hook(keep)
    model(donor_ids)
    handle.remove()
    handle = attention.w_o.register_forward_pre_hook(put)
    logits = model(ids)
    handle.remove()
    return logits


@answers("patch")
def walked(model, ids, donor_ids, layer, head):
    """Both texts go through the layers side by side."""
    x, y = model.start(ids), model.start(donor_ids)
    for i, block in enumerate(model.blocks):
        attention = block.attention

        def outputs(stream, block=block, attention=attention):
            read = block.norm(stream)
            return attention.weights(read) @ attention.split(attention.w_v(read))

        mine, theirs = outputs(x), outputs(y)
        if i == layer:
            mine = torch.cat((mine[:, :head], theirs[:, head : head + 1], mine[:, head + 1 :]), dim=1)
        x = x + attention.w_o(mine.transpose(1, 2).flatten(2))
        y = y + attention.w_o(theirs.transpose(1, 2).flatten(2))
    return model.unembed(model.norm(x))


@contextmanager
def hooked(module, hook):
    handle = module.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@answers("patch")
def in_a_context(model, ids, donor_ids, layer, head):
    w_o, n_heads = model.blocks[layer].attention.w_o, model.blocks[layer].attention.n_heads
    seen = []
    with torch.no_grad():
        with hooked(w_o, lambda m, a: seen.append(a[0].detach().clone())):
            model(donor_ids)

        def put(m, a):
            x = a[0].unflatten(-1, (n_heads, -1)).clone()
            x[:, :, head] = seen[0].unflatten(-1, (n_heads, -1))[:, :, head]
            return (x.flatten(-2),)

        with hooked(w_o, put):
            return model(ids)


@answers("patch")
def in_one_batch(model, ids, donor_ids, layer, head):
    """One call reads both texts; in the hook, the second half's output goes into the first."""
    attention = model.blocks[layer].attention
    d = attention.w_o.in_features // attention.n_heads

    def hook(_m, args):
        x = args[0].clone()
        n = len(x) // 2
        x[:n, :, head * d : (head + 1) * d] = args[0][n:, :, head * d : (head + 1) * d]
        return x

    handle = attention.w_o.register_forward_pre_hook(hook)
    try:
        return model(torch.cat([ids, donor_ids]))[: len(ids)]
    finally:
        handle.remove()


@answers("patch")
def from_the_layers_before(model, ids, donor_ids, layer, head):
    """The donor goes as far as the layer, no further; then the difference is added after W_O."""
    with torch.no_grad():
        donor = model.start(donor_ids)
        for block in model.blocks[:layer]:
            donor = block(donor)
        x = model.start(ids)
        for i, block in enumerate(model.blocks):
            if i != layer:
                x = block(x)
                continue
            a = block.attention
            d = a.w_o.in_features // a.n_heads
            rows = slice(head * d, (head + 1) * d)

            def output(stream, a=a, block=block):
                read = block.norm(stream)
                return (a.weights(read) @ a.split(a.w_v(read)))[:, head]

            x = block(x) + (output(donor) - output(x)) @ a.w_o.weight[:, rows].T
        return model.unembed(model.norm(x))


@answers("patch")
def on_a_copy_with_a_hook(model, ids, donor_ids, layer, head):
    model = copy.deepcopy(model)
    attention = model.blocks[layer].attention
    kept = []
    handle = attention.w_o.register_forward_pre_hook(lambda m, a: kept.append(a[0]))
    model(donor_ids)
    handle.remove()

    def put(m, a):
        mine, theirs = a[0].chunk(attention.n_heads, -1), kept[0].chunk(attention.n_heads, -1)
        return (torch.cat([theirs[i] if i == head else mine[i] for i in range(attention.n_heads)], -1),)

    attention.w_o.register_forward_pre_hook(put)  # on the copy: nobody sees it again
    return model(ids)


class Patched(nn.Module):
    """Stands in the place of W_O."""

    def __init__(self, w_o, n_heads, head, donor=None):
        super().__init__()
        self.w_o, self.n_heads, self.head, self.donor, self.seen = w_o, n_heads, head, donor, None

    def forward(self, merged):
        self.seen = merged.clone()
        if self.donor is not None:
            d = merged.size(-1) // self.n_heads
            merged = merged.clone()
            merged[..., self.head * d : (self.head + 1) * d] = self.donor[..., self.head * d : (self.head + 1) * d]
        return self.w_o(merged)


@answers("patch")
def stand_in(model, ids, donor_ids, layer, head):
    attention = model.blocks[layer].attention
    before = attention.w_o
    attention.w_o = Patched(before, attention.n_heads, head)
    model(donor_ids)
    attention.w_o = Patched(before, attention.n_heads, head, attention.w_o.seen)
    logits = model(ids)
    attention.w_o = before
    return logits


def outputs_of(model, ids, change=None):
    """(logits, the heads' outputs of all layers), all by hand."""
    x = model.embed(ids) + model.positions.weight[: ids.size(1)]
    kept = []
    for layer, block in enumerate(model.blocks):
        a = block.attention
        q, k, v = (a.split(w(block.norm(x))) for w in (a.w_q, a.w_k, a.w_v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        mask = torch.ones(ids.size(1), ids.size(1)).tril() == 0
        out = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        kept.append(out)
        out = change(layer, out) if change else out
        x = x + a.w_o(out.permute(0, 2, 1, 3).reshape(x.shape))
    return model.unembed(model.norm(x)), kept


def replace_head(layer, head, donor, at, out):
    if at == layer:
        out = out.clone()
        out[:, head] = donor[:, head]
    return out


@answers("patch")
def own_forward(model, ids, donor_ids, layer, head):
    _, theirs = outputs_of(model, donor_ids)
    return outputs_of(model, ids, partial(replace_head, layer, head, theirs[layer]))[0]
