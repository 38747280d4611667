"""Profiles of torch.profiler say that the times of their device are virtual."""

CLOCK = ("times of the device are those of a virtual GPU, which models them: durations, gaps and order; times of the CPU are those of this machine. "
         "How long after its call an operation begins has no meaning.")


def label(torch):
    profiler = torch.autograd.profiler
    enable = profiler._enable_profiler
    cuda = torch.profiler.ProfilerActivity.CUDA

    def enabled(config, activities, *rest):
        result = enable(config, activities, *rest)
        if cuda in activities:
            torch.autograd._add_metadata_json("tidemark", f'"{CLOCK}"')
        return result

    profiler._enable_profiler = enabled
