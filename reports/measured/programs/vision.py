"""Models of torchvision and timm, and convolutions."""
from . import program, torch_, trained


def classified(model, batch):
    import torch
    out = model(batch[0])
    return torch.nn.functional.cross_entropy(out["out"] if isinstance(out, dict) else out, batch[1])


def images(torch, n, size=224, classes=1000, **more):
    return torch.randn(n, 3, size, size, device="cuda").to(**more), torch.randint(0, classes, (n,), device="cuda")


def vision(name, n, size=224, mixed=None, last=False, source="torchvision", **more):
    torch = torch_()
    if source == "timm":
        import timm
        model = timm.create_model(name, pretrained=False, **more)
    else:
        import torchvision
        found = getattr(torchvision.models, name, None) or getattr(torchvision.models.segmentation, name)
        model = found(weights=None, **more)
    model = model.to("cuda")
    layout = {"memory_format": torch.channels_last} if last else {}
    if last:
        model = model.to(**layout)
    yield from trained(model, images(torch, n, size, **layout), classified, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), mixed=mixed)


@program()
def resnet50_fp32():
    yield from vision("resnet50", 32)


@program()
def resnet50_amp_last():
    yield from vision("resnet50", 64, mixed=torch_().float16, last=True)


@program()
def resnet18_benchmark():
    torch_().backends.cudnn.benchmark = True
    yield from vision("resnet18", 32)


@program()
def resnet18_deterministic():
    torch_().backends.cudnn.deterministic = True
    yield from vision("resnet18", 32)


@program()
def mobilenet_bf16():
    yield from vision("mobilenet_v3_large", 64, mixed=torch_().bfloat16)


@program()
def vit_b_16_bf16():
    yield from vision("vit_b_16", 32, mixed=torch_().bfloat16)


@program()
def swin_t_bf16():
    yield from vision("swin_t", 16, mixed=torch_().bfloat16)


@program()
def convnext_timm():
    yield from vision("convnext_tiny", 32, mixed=torch_().bfloat16, source="timm")


@program()
def efficientnet_timm():
    yield from vision("efficientnet_b0", 32, mixed=torch_().float16, last=True, source="timm")


@program()
def vgg11_fp32():
    yield from vision("vgg11", 16)


@program()
def unet_bf16():
    """A small U-Net with transposed convolutions and group norms."""
    torch = torch_()
    from torch import nn

    class UNet(nn.Module):
        def __init__(self, widths=(64, 128, 256)):
            super().__init__()
            def two(i, o):
                return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1), nn.SiLU())
            self.down = nn.ModuleList(two(i, o) for i, o in zip((3, *widths), widths))
            self.middle = two(widths[-1], widths[-1])
            self.grow = nn.ModuleList(nn.ConvTranspose2d(w, w, 2, stride=2) for w in reversed(widths))
            self.up = nn.ModuleList(two(2 * w, max(w // 2, 64)) for w in reversed(widths))
            self.last = nn.Conv2d(64, 10, 1)

        def forward(self, x):
            kept = []
            for d in self.down:
                x = d(x)
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
            x = self.middle(x)
            for g, u in zip(self.grow, self.up):
                x = u(torch.cat((g(x), kept.pop()), 1))
            return self.last(x).mean((2, 3))

    model = UNet().cuda()
    yield from trained(model, images(torch, 8, 128, 10), classified, torch.optim.AdamW(model.parameters()), mixed=torch.bfloat16)


@program()
def conv3d_fp16():
    torch = torch_()
    from torch import nn
    model = nn.Sequential(nn.Conv3d(1, 32, 3, padding=1), nn.InstanceNorm3d(32, affine=True), nn.LeakyReLU(), nn.Conv3d(32, 64, 3, stride=2, padding=1),
                          nn.BatchNorm3d(64), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(64, 4)).cuda()
    x = torch.randn(2, 1, 64, 64, 64, device="cuda"), torch.randint(0, 4, (2,), device="cuda")
    yield from trained(model, x, classified, torch.optim.Adam(model.parameters()), mixed=torch.float16, scaler=torch.amp.GradScaler())
