# Chloe: cuts and embeds, and has not got to the model.
# %% patchify
def patchify(images, patch_size):
    return nn.functional.unfold(images, patch_size, stride=patch_size).transpose(1, 2)


# %% patch-embedding
class PatchEmbedding(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.size = patch_size
        self.weight = nn.Parameter(torch.randn(channels * patch_size**2, d_model) / patch_size)
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, images):
        return patchify(images, self.size) @ self.weight + self.bias
