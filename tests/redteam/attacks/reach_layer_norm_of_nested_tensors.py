"""native_layer_norm of a nested tensor, for which torch keeps other code than for an ordinary one, in a thread.

score: 5
says: LayerNorm: it raised
"""

# %% layer-norm
import threading
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps, self.gamma, self.beta = eps, nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
    def forward(self, x):
        out = []
        def work():
            nested = torch.nested.as_nested_tensor([x.reshape(-1, x.shape[-1])])
            result = torch.native_layer_norm(nested, (x.shape[-1],), self.gamma, self.beta, self.eps)[0]
            out.append(result.unbind()[0].reshape(x.shape))
        thread = threading.Thread(target=work)
        thread.start(); thread.join()
        return out[0]
