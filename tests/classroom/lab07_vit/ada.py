# Ada: all right, with a convolution and an nn.Embedding for the positions; then stops her training after a few steps.
# %% patchify
def patchify(images, patch_size):
    windows = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


# %% patch-embedding
class PatchEmbedding(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.convolution = nn.Conv2d(channels, d_model, patch_size, stride=patch_size)

    def forward(self, images):
        return self.convolution(images).flatten(2).transpose(1, 2)


# %% vit
from dataclasses import replace

VIT_DIGITS = replace(VIT_DIGITS, epochs=1, batch_size=1000)
digits = replace(digits, train_images=digits.train_images[:1000], train_labels=digits.train_labels[:1000])


class ViT(nn.Module):
    def __init__(
        self, image_size=28, patch_size=7, channels=1, n_classes=10, d_model=64, n_layers=2, n_heads=4, d_ff=128
    ):
        super().__init__()
        self.embed = PatchEmbedding(patch_size, channels, d_model)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Embedding((image_size // patch_size) ** 2 + 1, d_model)
        self.blocks = nn.Sequential(*[EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_classes)

    def forward(self, images):
        x = self.embed(images)
        x = torch.cat([self.cls_token.repeat(x.size(0), 1, 1), x], dim=1)
        x = x + self.positions(torch.arange(x.size(1), device=x.device))
        return self.head(self.norm(self.blocks(x)[:, 0]))
