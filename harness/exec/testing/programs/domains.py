"""domains.py NAME: two or three training steps with a library of one field (audio, medical images, Gaussian processes ...), small and with random weights."""
import sys
import tempfile

import torch
from models import tokens, train
from torch.nn import functional as F


def conformer():
    """torchaudio: a conformer on mel spectrograms, with the RNN-T loss."""
    from torchaudio.functional import rnnt_loss
    from torchaudio.models import Conformer
    from torchaudio.transforms import MelSpectrogram

    encoder = Conformer(input_dim=32, num_heads=4, ffn_dim=64, num_layers=2, depthwise_conv_kernel_size=7).cuda()
    predictor, joiner = torch.nn.Embedding(20, 32).cuda(), torch.nn.Linear(32, 20).cuda()
    mel = MelSpectrogram(n_mels=32, n_fft=256).cuda()

    def batch():
        x = mel(torch.randn(2, 8000).cuda()).clamp(min=1e-5).log().transpose(1, 2)
        y, lengths = encoder(x, torch.tensor([x.shape[1], x.shape[1] - 7]).cuda())
        targets = tokens(20, 2, 5)
        logits = joiner((y[:, :, None] + predictor(F.pad(targets, (1, 0)))[:, None]).tanh())
        return rnnt_loss(logits, targets.int(), lengths.int(), torch.tensor([5, 4], dtype=torch.int32).cuda(), blank=0)

    train(torch.nn.ModuleList([encoder, predictor, joiner]), batch)


def unet3d():
    """MONAI: a U-Net in three dimensions with Dice and cross entropy, and inference over windows."""
    from monai.inferers import sliding_window_inference
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    model, loss = UNet(3, 1, 3, (8, 16, 32), (2, 2), num_res_units=1).cuda(), DiceCELoss(to_onehot_y=True, softmax=True)
    train(model, lambda: loss(model(torch.randn(2, 1, 16, 16, 16).cuda()), torch.randint(0, 3, (2, 1, 16, 16, 16)).cuda()))
    with torch.no_grad():
        print("windows", tuple(sliding_window_inference(torch.randn(1, 1, 24, 24, 24).cuda(), (16, 16, 16), 2, model).shape))


def clip():
    """open_clip: a contrastive model of images and texts."""
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    model = CLIP(32, CLIPVisionCfg(layers=2, width=64, head_width=16, patch_size=8, image_size=32),
                 CLIPTextCfg(context_length=12, vocab_size=100, width=32, heads=2, layers=2)).cuda()
    loss = ClipLoss()
    train(model, lambda: loss(*model(torch.randn(4, 3, 32, 32).cuda(), tokens(100, 4, 12))[:3]))


def gaussian_process():
    """GPyTorch: an exact Gaussian process (Cholesky decompositions of cuSOLVER), and its predictions."""
    import gpytorch as g

    x = torch.rand(60, 2).cuda()
    y = x.sum(1).sin()

    class Process(g.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean, self.kernel = g.means.ConstantMean(), g.kernels.ScaleKernel(g.kernels.MaternKernel(ard_num_dims=2))

        def forward(self, at):
            return g.distributions.MultivariateNormal(self.mean(at), self.kernel(at))

    likelihood = g.likelihoods.GaussianLikelihood().cuda()
    model = Process(likelihood).cuda()
    marginal = g.mlls.ExactMarginalLogLikelihood(likelihood, model)
    train(model, lambda: -marginal(model(x), y), 3, torch.optim.Adam(model.parameters(), 0.1))
    model.eval()
    with torch.no_grad():
        print("predicted", model(torch.rand(7, 2).cuda()).mean.sum().item())


def neural_ode():
    """torchdiffeq: Dormand-Prince with the adjoint method. The host reads the error of each step to choose the next."""
    from torchdiffeq import odeint_adjoint

    class Slope(torch.nn.Sequential):
        def forward(self, _, y):
            return super().forward(y**3)

    slope = Slope(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4)).cuda()
    times = torch.linspace(0, 1, 5).cuda()
    train(slope, lambda: odeint_adjoint(slope, torch.randn(8, 4).cuda(), times, rtol=1e-4, atol=1e-5).square().mean())


def equivariant():
    """e3nn: a convolution over neighbours that is equivariant to rotations."""
    from e3nn import nn, o3

    features, directions = o3.Irreps("8x0e+4x1o+2x2e"), o3.Irreps.spherical_harmonics(2)
    product = o3.FullyConnectedTensorProduct(features, directions, features, shared_weights=False).cuda()
    radial, read = nn.FullyConnectedNet([1, 16, product.weight_numel], F.silu).cuda(), o3.Linear(features, "0e").cuda()

    def batch():
        x, places = torch.randn(12, features.dim).cuda(), torch.randn(12, 3).cuda()
        apart = places[:, None] - places
        i, j = (apart.norm(dim=-1) < 2).nonzero(as_tuple=True)
        edges = product(x[i], o3.spherical_harmonics(directions, apart[i, j], True), radial(apart[i, j].norm(dim=-1, keepdim=True)))
        return read(torch.zeros_like(x).index_add_(0, j, edges)).square().mean()

    train(torch.nn.ModuleList([product, radial, read]), batch)


def augment():
    """kornia: augmentations on the device, and losses and filters of images."""
    import kornia as k

    a = k.augmentation
    augmented = a.AugmentationSequential(a.RandomAffine(15.0, p=1.0), a.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0), a.RandomPerspective(0.2, p=1.0),
                                         a.RandomGaussianBlur((3, 3), (0.1, 2.0), p=1.0), data_keys=["input"])
    model = torch.nn.Conv2d(3, 3, 3, padding=1).cuda()

    def batch():
        x = torch.rand(2, 3, 32, 32).cuda()
        y = model(augmented(x))
        return k.losses.ssim_loss(y, x, 5) + k.filters.sobel(y).mean()

    train(model, batch)


def dpo():
    """trl: direct preference optimisation with a reference model."""
    from datasets import Dataset
    from models import llama
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from trl import DPOConfig, DPOTrainer

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate("<pad> <eos> <unk> a b c d e f g h".split())}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tempfile.mkdtemp()  # the reference model comes from there
    llama(hidden_size=64, intermediate_size=128).save_pretrained(folder)
    trainer = DPOTrainer(folder, args=DPOConfig(folder, per_device_train_batch_size=2, max_steps=3, logging_steps=1, report_to=[], save_strategy="no"),
                         train_dataset=Dataset.from_list([{"prompt": "a b c", "chosen": " d e", "rejected": " f g h"}] * 8),
                         processing_class=PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"))
    trainer.train()
    print("losses", [entry["loss"] for entry in trainer.state.log_history if "loss" in entry])


torch.manual_seed(0)
globals()[sys.argv[1]]()
