"""Released DistributedDataParallel compared with this scenario: `separate`, and with gradient_as_bucket_view `rebuilt_view`, in every figure."""
from upstream import Row

PROGRAMS = [{"layers": 3, "hidden": 48, "rows": 4, "bucket_bytes": 16384}, {"layers": 5, "hidden": 777, "rows": 16, "bucket_bytes": 1 << 20},
            {"layers": 40, "hidden": 520, "rows": 16, "bucket_bytes": 25 << 20}, {"layers": 9, "hidden": 1024, "rows": 128, "bucket_bytes": 25 << 20}]


def rows():
    for parameters in PROGRAMS:
        for variant, flags in (("separate", ()), ("rebuilt_view", ("--view",))):
            yield Row(f"DDP, {', '.join(f'{name} {value}' for name, value in parameters.items())}{', gradient_as_bucket_view' if flags else ''}", "2.11.0",
                      (*(f"--{name}={value}" for name, value in parameters.items()), *flags), variant, tuple(parameters.items()), size="smoke", ranks=1,
                      mode="math", small=True)
