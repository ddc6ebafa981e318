"""Models that come with the course already trained, so that there is something to look at before anyone trains.

`python -m headroom.pretrained` trains them again and replaces their files; with a name, such as `dates`, only that one.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from headroom.data import SOURCE, TARGET, code_tokens, embedded_code, embedded_digits, written_dates
from headroom.language_training import train_language_model
from headroom.recipes import CODE, DATES, DATES_TRAIN, DATES_VAL, VIT_DIGITS, Recipe
from headroom.reference import LanguageModel, RotarySelfAttention, Transformer, ViT
from headroom.scale import need_full_scale
from headroom.training import History, seed_everything, train, train_transformer

FOLDER = Path(__file__).parent / "checkpoints"
SEED = 1

Model = TypeVar("Model", bound=nn.Module)


def pretrained_vit() -> ViT:
    """A `ViT()` trained on the embedded 9,000 digits with `VIT_DIGITS`, on the CPU and in eval mode."""
    return _load(ViT(), "vit_digits")


def pretrained_transformer() -> Transformer:
    """A `dates_transformer()` trained on written dates with `DATES`, on the CPU and in eval mode."""
    return _load(dates_transformer(), "dates")


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


def checkpoint(name: str) -> dict:
    """What a file holds: the weights, and how they came to be (recipe, seed, val_accuracy, torch)."""
    return torch.load(FOLDER / f"{name}.pt", weights_only=True)


def _load(model: Model, name: str) -> Model:
    model.load_state_dict(checkpoint(name)["weights"])
    return model.eval()


def _remake_vit_digits() -> None:
    model = ViT()
    _save("vit_digits", model, VIT_DIGITS, train(model, embedded_digits(), VIT_DIGITS, device="cpu"))


def _remake_dates() -> None:
    model = dates_transformer()
    history = train_transformer(model, written_dates(**DATES_TRAIN), written_dates(**DATES_VAL), DATES, device="cpu")
    _save("dates", model, DATES, history)


def _remake_code() -> None:
    model, code, tokens = code_model(), embedded_code(), code_tokens()
    train, val = (tokens.encode("".join(files.values())) for files in (code.train, code.val))
    history = train_language_model(model, train, val, CODE, device="cpu")
    _save("code", model, CODE, history, torch.float16)  # half the size; rounding changes no digit that is shown


def _save(name: str, model: nn.Module, recipe: Recipe, history: History, dtype: torch.dtype = torch.float32) -> None:
    """Write the file, with how it came to be; an interrupted training leaves the old one as it was."""
    file = FOLDER / f"{name}.pt"
    if history.interrupted:
        print(f"{file} is left as it was.")
        return
    stored: dict[int, torch.Tensor] = {}  # by address: tied weights are one tensor
    weights = {
        key: stored.setdefault(weight.data_ptr(), weight.to(dtype)) for key, weight in model.state_dict().items()
    }
    made = {
        "weights": weights,
        "recipe": asdict(recipe),
        "seed": SEED,
        "val_accuracy": history.val_accuracy[-1],
        "torch": str(torch.__version__),
    }
    torch.save(made, file)
    print(f"{file}: validation accuracy {100 * history.val_accuracy[-1]:.1f} % after {history.seconds:.0f} s")


if __name__ == "__main__":
    remakes = {"vit_digits": _remake_vit_digits, "dates": _remake_dates, "code": _remake_code}
    for name in sys.argv[1:] or remakes:
        if name not in remakes:
            sys.exit(f"there is no model {name!r}; there are: {', '.join(remakes)}")
        try:
            need_full_scale("The models that come with the course are trained")
        except (RuntimeError, ValueError) as error:
            sys.exit(str(error))
        seed_everything(SEED)
        remakes[name]()
