"""Models that come with the course already trained, so that there is something to look at before anyone trains.

`python -m headroom.pretrained` trains them again and replaces their files; with a name, such as `dates`, only that one.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from headroom.data import SOURCE, TARGET, code_tokens, embedded_code, embedded_digits, written_dates
from headroom.language_training import LENGTHS, train_language_model, train_on_repeats
from headroom.recipes import CODE, DATES, DATES_TRAIN, DATES_VAL, REPEATS, VIT_DIGITS, Recipe
from headroom.reference import LanguageModel, RotarySelfAttention, Transformer, ViT
from headroom.scale import need_full_scale
from headroom.training import History, seed_everything, train, train_transformer

FOLDER = Path(__file__).parent / "checkpoints"
SEED = 1
DATES_SEEDS = {"dates": 1, "dates_seed_2": 2}  # lecture 8 asks both, to see what one result is worth
REPEATS_SEEDS = {1: 1, 2: 3}  # by number of layers; how other seeds do: benchmarks/results/induction.md
STAGES = (0, 200, 300, 400, 500, 600, 700, 800, 1000, 2000, 3000)  # steps after which the weights are kept as well

Model = TypeVar("Model", bound=nn.Module)


def pretrained_vit() -> ViT:
    """A `ViT()` trained on the embedded 9,000 digits with `VIT_DIGITS`, on the CPU and in eval mode."""
    return _load(ViT(), "vit_digits")


def pretrained_transformer(seed: int = 1) -> Transformer:
    """A `dates_transformer()` trained on written dates with `DATES` from seed 1 or 2, on the CPU and in eval mode."""
    names = {its: name for name, its in DATES_SEEDS.items()}
    if seed not in names:
        raise ValueError(f"seed is {seed}: there are models from the seeds {' and '.join(map(str, names))}")
    return _load(dates_transformer(), names[seed])


def pretrained_language_model() -> LanguageModel:
    """A `code_model()` trained on the embedded code with `CODE`, on the CPU and in eval mode."""
    return _load(code_model(), "code")


def dates_transformer() -> Transformer:
    """The encoder-decoder that reads dates as people write them and writes them as ISO 8601, untrained."""
    return Transformer(len(SOURCE), len(TARGET))


def code_model() -> LanguageModel:
    """The language model that comes with the course, untrained: it reads and writes Python in 1,024 tokens."""
    return _rotary_model(d_model=192, n_layers=4, n_heads=6, d_ff=768, max_tokens=256, dropout=0.2)


def small_code_model() -> LanguageModel:
    """A smaller one, untrained, which learns within a minute with `CODE_MINUTE`."""
    return _rotary_model(d_model=128, n_layers=2, n_heads=4, d_ff=256, max_tokens=64)


def _rotary_model(**size: Any) -> LanguageModel:
    return LanguageModel(len(code_tokens()), **size, positions=None, attention=RotarySelfAttention)


def pretrained_repeats(n_layers: int = 2) -> LanguageModel:
    """A `repeats_model(n_layers)`, of one layer or two, trained with `REPEATS`, on the CPU and in eval mode."""
    return list(repeats_stages(n_layers).values())[-1]


def repeats_stages(n_layers: int = 2) -> dict[int, LanguageModel]:
    """The same model at moments of its training, by the number of steps until then; of one layer: only at its end."""
    stored, models = checkpoint(_repeats(n_layers)), {}
    for step, weights in zip(stored["steps"], stored["weights"], strict=True):
        models[step] = repeats_model(n_layers).eval()
        vector_to_parameters(weights.float(), models[step].parameters())
    return models


def repeats_model(n_layers: int = 2) -> LanguageModel:
    """The model of attention alone for random sequences that are written twice, untrained; two heads a layer.

    Positions are rotary: they turn queries and keys, and no head can hand on where a token stands.
    """
    return LanguageModel(
        50,
        64,
        n_layers,
        n_heads=2,
        max_tokens=2 * max(LENGTHS),
        positions=None,
        attention=RotarySelfAttention,
        feed_forward=None,
    )


def checkpoint(name: str) -> dict[str, Any]:
    """What a file holds: the weights, and how they came to be (recipe, seed, val_accuracy, torch).

    The weights are a state dict; those of `repeats…` one row of float16 for each of its `steps`. `dates_seed_2` has the
    `losses` of its steps, too, and `epochs`: the validation accuracy after each.
    """
    return torch.load(FOLDER / f"{name}.pt", weights_only=True)


def _load(model: Model, name: str) -> Model:
    model.load_state_dict(checkpoint(name)["weights"])
    return model.eval()


def _remake_vit_digits() -> None:
    model = ViT()
    history = train(model, embedded_digits(), VIT_DIGITS, device="cpu")
    _save("vit_digits", VIT_DIGITS, history, weights=_weights(model))


def _remake_dates(name: str) -> None:
    seed_everything(DATES_SEEDS[name])
    model = dates_transformer()
    history = train_transformer(model, written_dates(**DATES_TRAIN), written_dates(**DATES_VAL), DATES, device="cpu")
    weights = _weights(model, torch.float32 if name == "dates" else torch.float16)
    losses = torch.tensor(history.losses).half()
    _save(name, DATES, history, seed=DATES_SEEDS[name], losses=losses, epochs=history.val_accuracy, weights=weights)


def _remake_code() -> None:
    model, code, tokens = code_model(), embedded_code(), code_tokens()
    train, val = (tokens.encode("".join(files.values())) for files in (code.train, code.val))
    history = train_language_model(model, train, val, CODE, device="cpu")
    # float16: half the size; rounding changes no digit that is shown
    _save("code", CODE, history, weights=_weights(model, torch.float16))


def _remake_repeats(n_layers: int) -> None:
    seed_everything(REPEATS_SEEDS[n_layers])
    model, stages = repeats_model(n_layers), {}

    def keep(step: int) -> None:
        if step in STAGES:
            stages[step] = parameters_to_vector(model.parameters()).detach().half()

    history = train_on_repeats(model, REPEATS, after_epoch=keep, device="cpu")
    steps = list(STAGES) if n_layers > 1 else [STAGES[-1]]
    weights = torch.stack([stages[step] for step in steps])
    _save(_repeats(n_layers), REPEATS, history, seed=REPEATS_SEEDS[n_layers], steps=steps, weights=weights)


def _repeats(n_layers: int) -> str:
    return {1: "repeats_one_layer", 2: "repeats"}[n_layers]


def _save(name: str, recipe: Recipe, history: History, **made: Any) -> None:
    """Write the file: how it came to be, and what was made; an interrupted training leaves the old one as it was."""
    file = FOLDER / f"{name}.pt"
    if history.interrupted:
        print(f"{file} is left as it was.")
        return
    about = {"recipe": asdict(recipe), "val_accuracy": history.val_accuracy[-1], "torch": str(torch.__version__)}
    torch.save({"seed": SEED, **about, **made}, file)
    print(f"{file}: validation accuracy {100 * history.val_accuracy[-1]:.1f} % after {history.seconds:.0f} s")


def _weights(model: nn.Module, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """The state dict, in which a weight with two names is kept once."""
    stored: dict[int, Tensor] = {}  # by address: tied weights are one tensor
    return {key: stored.setdefault(weight.data_ptr(), weight.to(dtype)) for key, weight in model.state_dict().items()}


if __name__ == "__main__":
    remakes = {
        "vit_digits": _remake_vit_digits,
        "dates": lambda: _remake_dates("dates"),
        "dates_seed_2": lambda: _remake_dates("dates_seed_2"),
        "code": _remake_code,
        "repeats": lambda: _remake_repeats(2),
        "repeats_one_layer": lambda: _remake_repeats(1),
    }
    try:
        need_full_scale("The models that come with the course are trained")
    except (RuntimeError, ValueError) as error:
        sys.exit(str(error))
    for name in sys.argv[1:] or remakes:
        if name not in remakes:
            sys.exit(f"there is no model {name!r}; there are: {', '.join(remakes)}")
        seed_everything(SEED)
        remakes[name]()
