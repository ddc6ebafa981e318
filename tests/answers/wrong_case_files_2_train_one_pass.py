"""Wrong `train_one_pass`: the program as given, half mended, and mended wrongly.

`…_as_given` is the broken program of the lab, with both of its slips.
"""

import math

import torch
import torch.nn.functional as F

from tests.answers import answers


@answers("train_one_pass", "piled_up", "divided_again")
def training_as_given(weights, images, labels, learning_rate, batch_size):
    weights = weights.clone().requires_grad_()
    optimizer = torch.optim.SGD([weights], lr=learning_rate)
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        loss = F.cross_entropy(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        (loss / len(rows)).backward()
        optimizer.step()
    return weights.detach(), torch.stack(losses)


def pass_of(weights, images, labels, learning_rate, batch_size, step, loss_of=F.cross_entropy):
    """The frame: `step(optimizer, loss, rows)` is wrong in each function."""
    weights = weights.clone().requires_grad_()
    optimizer = torch.optim.SGD([weights], lr=learning_rate)
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        loss = loss_of(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        step(optimizer, loss, rows)
    return weights.detach(), torch.stack(losses)


@answers("train_one_pass", "piled_up")
def piled_up(*inputs):
    def step(optimizer, loss, rows):
        loss.backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "divided_again")
def divided_again(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (loss / len(rows)).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "divided_again")
def by_batch_size(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (loss / inputs[4]).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "divided_again")
def divided_and_recorded(*inputs):
    def loss_of(logits, labels):
        return F.cross_entropy(logits, labels) / len(labels)

    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return pass_of(*inputs, step, loss_of)


@answers("train_one_pass", "not_stepped")
def emptied_too_late(*inputs):
    def step(optimizer, loss, rows):
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "one_step")
def step_after_the_loop(weights, images, labels, learning_rate, batch_size):
    weights = weights.clone().requires_grad_()
    optimizer = torch.optim.SGD([weights], lr=learning_rate)
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        loss = F.cross_entropy(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        loss.backward()
    optimizer.step()
    return weights.detach(), torch.stack(losses)


@answers("train_one_pass", "first_only")
def returns_in_the_loop(weights, images, labels, learning_rate, batch_size):
    weights = weights.clone().requires_grad_()
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        loss = F.cross_entropy(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        loss.backward()
        weights.data -= learning_rate * weights.grad
        return weights.detach(), torch.stack(losses)


@answers("train_one_pass", "drop_last")
def whole_batches(weights, images, labels, learning_rate, batch_size):
    weights = weights.clone()
    losses = [torch.zeros(())][:0]
    for i in range(len(images) // batch_size):
        x, y = images[i * batch_size : (i + 1) * batch_size], labels[i * batch_size : (i + 1) * batch_size]
        p = (x @ weights).softmax(-1)
        losses.append(F.cross_entropy(x @ weights, y))
        weights = weights - learning_rate * x.T @ (p - F.one_hot(y, p.size(-1))) / len(x)
    return weights, torch.stack(losses) if losses else torch.zeros(0)


@answers("train_one_pass", "summed")
def summed_gradient(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (loss * len(rows)).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "summed")
def summed_loss(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return pass_of(*inputs, step, lambda logits, labels: F.cross_entropy(logits, labels, reduction="sum"))


@answers("train_one_pass", "by_batches")
def divided_by_the_number_of_batches(*inputs):
    batches = math.ceil(len(inputs[1]) / inputs[4])

    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (loss / batches).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "uphill")
def uphill(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (-loss).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "softmax_twice")
def probabilities_into_the_loss(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return pass_of(*inputs, step, lambda logits, labels: F.cross_entropy(logits.softmax(-1), labels))


@answers("train_one_pass", "recorded_after")
def loss_of_afterwards(weights, images, labels, learning_rate, batch_size):
    w = weights.clone().requires_grad_()
    losses = []
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        w.grad = None
        F.cross_entropy(x @ w, y).backward()
        with torch.no_grad():
            w -= learning_rate * w.grad
            losses.append(F.cross_entropy(x @ w, y))
    return w.detach(), torch.stack(losses)


@answers("train_one_pass", "overwritten")
def trains_the_callers_weights(weights, images, labels, learning_rate, batch_size):
    losses = []
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        p = (x @ weights).softmax(-1)
        losses.append(F.cross_entropy(x @ weights, y))
        weights -= learning_rate * x.T @ (p - F.one_hot(y, p.size(-1))) / len(x)
    return weights, torch.stack(losses)


@answers("train_one_pass", "piled_up", "summed")
def piled_up_and_summed(*inputs):
    def step(optimizer, loss, rows):
        (loss * len(rows)).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "divided_again", "uphill")
def divided_and_uphill(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (-loss / len(rows)).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "piled_up", "by_batches")
def averaged_over_a_pass(*inputs):
    batches = math.ceil(len(inputs[1]) / inputs[4])

    def step(optimizer, loss, rows):
        (loss / batches).backward()
        optimizer.step()

    return pass_of(*inputs, step)


def with_optimizer(make, weights, images, labels, learning_rate, batch_size, order=lambda n: torch.arange(n)):
    weights = weights.clone().requires_grad_()
    optimizer = make([weights], learning_rate)
    losses = []
    for rows in order(len(images)).split(batch_size):
        loss = F.cross_entropy(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weights.detach(), torch.stack(losses)


@answers("train_one_pass")
def adam(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.Adam(w, lr), *inputs)


@answers("train_one_pass")
def momentum(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr, momentum=0.9), *inputs)


@answers("train_one_pass")
def decayed(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr, weight_decay=0.01), *inputs)


@answers("train_one_pass")
def shuffled(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), *inputs, order=torch.randperm)


@answers("train_one_pass")
def backwards(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), *inputs, order=lambda n: torch.arange(n).flip(0))


@answers("train_one_pass")
def own_learning_rate(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, 0.1), *inputs)


@answers("train_one_pass")
def clipped(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.05)
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass")
def two_passes(weights, *rest):
    once, _ = with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), weights, *rest)
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), once, *rest)


@answers("train_one_pass")
def from_zero(weights, *rest):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), torch.zeros_like(weights), *rest)


@answers("train_one_pass")
def rate_falls(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.9

    return pass_of(*inputs, step)


@answers("train_one_pass")
def weights_alone(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), *inputs)[0]
