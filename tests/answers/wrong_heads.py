"""Wrong answers to lab 11, as students write them; `answers` names their mistakes, or none that is on a list."""

import copy

import torch

from tests.answers import answers

# --- induction_score ---------------------------------------------------------------------------------------------


@answers("induction_score", "the_earlier_one")
def duplicate_token(weights, length):
    return weights.diagonal(-length, dim1=-2, dim2=-1).mean((0, -1))


@answers("induction_score", "two_after")
def sign_of_the_offset(weights, length):
    queries = torch.arange(length, weights.size(-1))
    return weights[..., queries, queries - (length - 2)].mean((0, -1))


@answers("induction_score", "previous_token")
def the_token_before(weights, length):
    queries = torch.arange(length, weights.size(-1))
    return weights[..., queries, queries - 1].mean((0, -1))


@answers("induction_score", "transposed")
def keys_first(weights, length):
    queries = torch.arange(length, weights.size(-1))
    return weights[..., queries - length + 1, queries].mean((0, -1))


@answers("induction_score", "first_time_counted")
def whole_diagonal(weights, length):
    return torch.diagonal(weights, -(length - 1), dim1=-2, dim2=-1).mean((0, -1))


@answers("induction_score", "last_left_out")
def up_to_the_last(weights, length):
    total, count = 0, 0
    for t in range(length, weights.shape[-1] - 1):
        total = total + weights[..., t, t - length + 1].mean(0)
        count += 1
    return total / count if count else weights.new_full(weights.shape[1:3], float("nan"))


@answers("induction_score", "by_all_tokens")
def share_of_all(weights, length):
    matches = weights.diagonal(1 - length, dim1=-2, dim2=-1)[..., 1:]
    return matches.sum(-1).mean(0) / weights.size(-1)


@answers("induction_score", "half")
def half_the_text(weights, length):
    half = weights.size(-1) // 2
    return weights.diagonal(1 - half, dim1=-2, dim2=-1)[..., 1:].mean((0, -1))


@answers("induction_score", "twice_at_most")
def second_time_only(weights, length):
    end = min(2 * length, weights.size(-1))
    queries = torch.arange(length, end)
    return weights[..., queries, queries - length + 1].mean((0, -1))


@answers("induction_score", "hits_counted")
def argmax_hits(weights, length):
    queries = torch.arange(length, weights.size(-1))
    looks = weights.argmax(-1)[..., length:]
    return (looks == queries - length + 1).to(weights.dtype).mean((0, -1))


@answers("induction_score", "summed")
def added_up(weights, length):
    return weights.diagonal(1 - length, dim1=-2, dim2=-1)[..., 1:].sum(-1).mean(0)


@answers("induction_score", "first_sequence")
def of_the_first(weights, length):
    weights = weights[0]
    return weights.diagonal(1 - length, dim1=-2, dim2=-1)[..., 1:].mean(-1)


@answers("induction_score", "samples_kept")
def one_for_each(weights, length):
    return weights.diagonal(1 - length, dim1=-2, dim2=-1)[..., 1:].mean(-1)


@answers("induction_score", "overwritten")
def first_queries_cleared(weights, length):
    weights[..., :length, :] = 0
    matches = weights.diagonal(1 - length, dim1=-2, dim2=-1)
    return matches.sum(-1).mean(0) / (weights.size(-1) - length)


@answers("induction_score", "the_earlier_one", "samples_kept")
def earlier_one_for_each(weights, length):
    return weights.diagonal(-length, dim1=-2, dim2=-1).mean(-1)


@answers("induction_score")
def mean_over_heads(weights, length):
    matches = weights.mean(2, keepdim=True).diagonal(1 - length, dim1=-2, dim2=-1)[..., 1:].mean((0, -1))
    return matches.expand(weights.shape[1:3])


@answers("induction_score")
def largest_weight(weights, length):
    return weights.diagonal(1 - length, dim1=-2, dim2=-1)[..., 1:].amax(-1).mean(0)


@answers("induction_score")
def either_way(weights, length):
    """The token and the one after it."""
    queries = torch.arange(length, weights.size(-1))
    first = weights[..., queries, queries - length + 1]
    return (first + weights[..., queries, queries - length]).mean((0, -1))


@answers("induction_score")
def eight_tokens(weights, length):
    """Made for the sequences of the cell above."""
    queries = torch.arange(length, min(weights.size(-1), 16))
    return weights[..., queries, queries - length + 1].mean((0, -1))


@answers("induction_score")
def by_one_head(weights, length):
    return weights.diagonal(1 - length, dim1=-2, dim2=-1)[..., 1:].mean((0, -1))[:, 0]


# --- ablate ------------------------------------------------------------------------------------------------------


def columns_of(attention, head):
    d_head = attention.w_o.in_features // attention.n_heads
    return slice(head * d_head, (head + 1) * d_head)


@answers("ablate", "hook_left")
def hook_forgotten(model, ids, layer, head):
    attention = model.blocks[layer].attention

    def hook(_module, inputs):
        merged = inputs[0].clone()
        merged[..., columns_of(attention, head)] = 0
        return merged

    attention.w_o.register_forward_pre_hook(hook)
    return model(ids)


@answers("ablate", "weights_left")
def not_put_back(model, ids, layer, head):
    attention = model.blocks[layer].attention
    with torch.no_grad():
        attention.w_o.weight[:, columns_of(attention, head)] = 0
        return model(ids)


@answers("ablate", "weights_left")
def copied_by_view(model, ids, layer, head):
    """The copy is no copy: it is zero too when it is put back."""
    attention = model.blocks[layer].attention
    columns = columns_of(attention, head)
    before = attention.w_o.weight.data[:, columns]
    attention.w_o.weight.data[:, columns] = 0
    logits = model(ids)
    attention.w_o.weight.data[:, columns] = before
    return logits


@answers("ablate", "weights_left")
def forward_left(model, ids, layer, head):
    attention = model.blocks[layer].attention

    def forward(x):
        heads = attention.weights(x) @ attention.split(attention.w_v(x))
        heads[:, head] = 0
        return attention.w_o(heads.transpose(1, 2).flatten(-2))

    attention.forward = forward
    return model(ids)


@answers("ablate", "rows_of_w_o")
def rows(model, ids, layer, head):
    model = copy.deepcopy(model)
    attention = model.blocks[layer].attention
    attention.w_o.weight.data[columns_of(attention, head)] = 0
    return model(ids)


@answers("ablate", "bias_too")
def without_its_bias(model, ids, layer, head):
    x = model.start(ids)
    for i, block in enumerate(model.blocks):
        a, read = block.attention, block.norm(x)
        if i != layer:
            x = block(x)
            continue
        heads = a.weights(read) @ a.split(a.w_v(read))
        for h in range(a.n_heads):
            if h != head:
                x = x + heads[:, h] @ a.w_o.weight[:, columns_of(a, h)].T
    return model.unembed(model.norm(x))


@answers("ablate", "value_bias_left")
def value_weight_off(model, ids, layer, head):
    model = copy.deepcopy(model)
    attention = model.blocks[layer].attention
    with torch.no_grad():
        attention.w_v.weight[columns_of(attention, head)] = 0
    return model(ids)


@answers("ablate", "scores_zeroed")
def no_scores(model, ids, layer, head):
    model = copy.deepcopy(model)
    attention = model.blocks[layer].attention
    with torch.no_grad():
        attention.w_k.weight[columns_of(attention, head)] = 0
        attention.w_k.bias[columns_of(attention, head)] = 0
    return model(ids)


@answers("ablate", "another_head")
def head_from_1(model, ids, layer, head):
    model = copy.deepcopy(model)
    attention = model.blocks[layer].attention
    attention.w_o.weight.data[:, columns_of(attention, (head + 1) % attention.n_heads)] = 0
    return model(ids)


@answers("ablate", "heads_from_1")
def columns_before(model, ids, layer, head):
    model = copy.deepcopy(model)
    attention = model.blocks[layer].attention
    attention.w_o.weight.data[:, columns_of(attention, head - 1)] = 0
    return model(ids)


@answers("ablate", "heads_from_1")
def head_before(model, ids, layer, head):
    """Head 0 is the last one then."""
    model = copy.deepcopy(model)
    attention = model.blocks[layer].attention
    attention.w_o.weight.data.unflatten(1, (attention.n_heads, -1))[:, head - 1] = 0
    return model(ids)


@answers("ablate", "interleaved")
def every_nth(model, ids, layer, head):
    model = copy.deepcopy(model)
    attention = model.blocks[layer].attention
    attention.w_o.weight.data[:, head :: attention.n_heads] = 0
    return model(ids)


@answers("ablate", "only_that_head")
def all_but_it(model, ids, layer, head):
    attention = model.blocks[layer].attention

    def hook(_m, args):
        kept = torch.zeros_like(args[0])
        kept[..., columns_of(attention, head)] = args[0][..., columns_of(attention, head)]
        return kept

    handle = attention.w_o.register_forward_pre_hook(hook)
    logits = model(ids)
    handle.remove()
    return logits


@answers("ablate", "every_head")
def zeros_for_all(model, ids, layer, head):
    handle = model.blocks[layer].attention.w_o.register_forward_pre_hook(lambda m, a: torch.zeros_like(a[0]))
    logits = model(ids)
    handle.remove()
    return logits


@answers("ablate", "whole_layer")
def attention_returns_zero(model, ids, layer, head):
    handle = model.blocks[layer].attention.register_forward_hook(lambda m, a, out: torch.zeros_like(out))
    logits = model(ids)
    handle.remove()
    return logits


@answers("ablate", "nothing_changed")
def hook_returns_nothing(model, ids, layer, head):
    attention = model.blocks[layer].attention

    def hook(_m, args):
        merged = args[0].clone()
        merged[..., columns_of(attention, head)] = 0

    handle = attention.w_o.register_forward_pre_hook(hook)
    logits = model(ids)
    handle.remove()
    return logits


@answers("ablate", "every_layer")
def in_all_layers(model, ids, layer, head):
    model = copy.deepcopy(model)
    for block in model.blocks:
        block.attention.w_o.weight.data[:, columns_of(block.attention, head)] = 0
    return model(ids)


@answers("ablate", "layers_from_1")
def layer_before(model, ids, layer, head):
    model = copy.deepcopy(model)
    attention = model.blocks[layer - 1].attention
    attention.w_o.weight.data[:, columns_of(attention, head)] = 0
    return model(ids)


@answers("ablate", "only_at_the_end")
def off_the_end(model, ids, layer, head):
    x = model.start(ids)
    for i, block in enumerate(model.blocks):
        if i == layer:
            a, read = block.attention, block.norm(x)
            out = (a.weights(read) @ a.split(a.w_v(read)))[:, head]
            share = out @ a.w_o.weight[:, columns_of(a, head)].T
        x = block(x)
    return model.unembed(model.norm(x - share))


@answers("ablate", "rows_of_w_o", "every_layer")
def rows_everywhere(model, ids, layer, head):
    model = copy.deepcopy(model)
    for block in model.blocks:
        block.attention.w_o.weight.data[columns_of(block.attention, head)] = 0
    return model(ids)


@answers("ablate", "rows_of_w_o", "weights_left")
def rows_and_not_put_back(model, ids, layer, head):
    attention = model.blocks[layer].attention
    attention.w_o.weight.data[columns_of(attention, head)] = 0
    return model(ids)


@answers("ablate")
def mean_of_the_head(model, ids, layer, head):
    attention = model.blocks[layer].attention

    def hook(_m, args):
        merged = args[0].clone()
        part = merged[..., columns_of(attention, head)]
        merged[..., columns_of(attention, head)] = part.mean((0, 1))
        return merged

    handle = attention.w_o.register_forward_pre_hook(hook)
    logits = model(ids)
    handle.remove()
    return logits


@answers("ablate")
def last_token_alone(model, ids, layer, head):
    attention = model.blocks[layer].attention

    def hook(_m, args):
        merged = args[0].clone()
        merged[:, -1, columns_of(attention, head)] = 0
        return merged

    handle = attention.w_o.register_forward_pre_hook(hook)
    logits = model(ids)
    handle.remove()
    return logits


@answers("ablate")
def four_numbers_a_head(model, ids, layer, head):
    """Made for the model of the lab."""
    model = copy.deepcopy(model)
    model.blocks[layer].attention.w_o.weight.data[:, 4 * head : 4 * head + 4] = 0
    return model(ids)


@answers("ablate")
def attention_map_alone(model, ids, layer, head):
    model.blocks[layer].attention.n_heads -= 1
    try:
        return model(ids)
    finally:
        model.blocks[layer].attention.n_heads += 1


@answers("ablate")
def softmax_returned(model, ids, layer, head):
    model = copy.deepcopy(model)
    attention = model.blocks[layer].attention
    attention.w_o.weight.data[:, columns_of(attention, head)] = 0
    return model(ids).softmax(-1)


@answers("ablate")
def last_logits(model, ids, layer, head):
    model = copy.deepcopy(model)
    attention = model.blocks[layer].attention
    attention.w_o.weight.data[:, columns_of(attention, head)] = 0
    return model(ids)[:, -1]


# --- patch -------------------------------------------------------------------------------------------------------


def patched(model, ids, donor_ids, layer, put):
    """The logits of `ids`, where `put(own, donor's)` gives what W_O of the layer reads."""
    w_o, kept = model.blocks[layer].attention.w_o, []
    handle = w_o.register_forward_pre_hook(lambda m, a: kept.append(a[0].clone()))
    model(donor_ids)
    handle.remove()
    handle = w_o.register_forward_pre_hook(lambda m, a: put(a[0].clone(), kept[0]))
    logits = model(ids)
    handle.remove()
    return logits


def exchanged_columns(attention, head):
    def put(own, donor):
        own[..., columns_of(attention, head)] = donor[..., columns_of(attention, head)]
        return own

    return put


@answers("patch", "hook_left")
def second_hook_forgotten(model, ids, donor_ids, layer, head):
    attention, kept = model.blocks[layer].attention, []
    handle = attention.w_o.register_forward_pre_hook(lambda m, a: kept.append(a[0].clone()))
    model(donor_ids)
    handle.remove()
    put = exchanged_columns(attention, head)
    attention.w_o.register_forward_pre_hook(lambda m, a: put(a[0].clone(), kept[0]))
    return model(ids)


@answers("patch", "hook_left")
def first_hook_forgotten(model, ids, donor_ids, layer, head):
    attention, kept = model.blocks[layer].attention, []
    attention.w_o.register_forward_pre_hook(lambda m, a: kept.append(a[0].clone()))
    model(donor_ids)
    put = exchanged_columns(attention, head)
    handle = attention.w_o.register_forward_pre_hook(lambda m, a: put(a[0].clone(), kept[0]))
    logits = model(ids)
    handle.remove()
    return logits


@answers("patch", "weights_left")
def stand_in_left(model, ids, donor_ids, layer, head):
    attention, kept, before = model.blocks[layer].attention, [], model.blocks[layer].attention.forward

    def forward(x):
        heads = attention.weights(x) @ attention.split(attention.w_v(x))
        if kept:
            heads[:, head] = kept[0][:, head]
        else:
            kept.append(heads)
        return attention.w_o(heads.transpose(1, 2).flatten(-2))

    attention.forward = forward
    model(donor_ids)
    logits = model(ids)
    attention.forward = before  # which hides the class's own
    return logits


@answers("patch", "exchanged")
def the_other_way_round(model, ids, donor_ids, layer, head):
    attention = model.blocks[layer].attention
    return patched(model, donor_ids, ids, layer, exchanged_columns(attention, head))


@answers("patch", "donor_alone")
def reads_the_donor(model, ids, donor_ids, layer, head):
    attention = model.blocks[layer].attention
    return patched(model, donor_ids, donor_ids, layer, exchanged_columns(attention, head))


@answers("patch", "nothing_changed")
def own_in_own_place(model, ids, donor_ids, layer, head):
    attention = model.blocks[layer].attention
    return patched(model, ids, ids, layer, exchanged_columns(attention, head))


@answers("patch", "every_head")
def all_that_w_o_reads(model, ids, donor_ids, layer, head):
    return patched(model, ids, donor_ids, layer, lambda own, donor: donor)
