# Ben: the patches are strips, everywhere; and he stops his training after a few steps.
# %% patchify
def patchify(images, patch_size):
    b, c, h, w = images.shape
    return images.reshape(b, (h // patch_size) * (w // patch_size), c * patch_size * patch_size)


# %% patch-embedding
class PatchEmbedding(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.patch_size = patch_size
        self.projection = nn.Linear(channels * patch_size**2, d_model)

    def forward(self, images):
        return self.projection(patchify(images, self.patch_size))


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
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, d_model))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (image_size // patch_size) ** 2, d_model))
        self.blocks = nn.ModuleList([EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers)])
        self.norm = LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_classes)

    def forward(self, images):
        x = self.embed(images)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])
