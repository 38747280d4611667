"""Functions of PyTorch's Python part that answer on the virtual platform: the version of cuDNN, printing, saving what is not known, and
Inductor's autotuning."""
import ctypes
import functools

from tidemark_platform import is_refusal


def name_cudnn(cudnn):
    """The virtual cuDNN says the version that this torch was compiled with."""
    if cudnn:
        major, minor, patch = cudnn.getCompileVersion()
        ctypes.CDLL(None).tidemark_cudnn_set_version(ctypes.c_size_t(major * 10000 + minor * 100 + patch))


def print_host_copies():
    """Printing a tensor computes on its device which values to show, and how."""
    from torch import _tensor_str as printing

    inner = printing._tensor_str

    def of_host_copy(tensor, indent):
        try:
            return inner(tensor.cpu() if tensor.is_cuda else tensor, indent)
        except RuntimeError as error:
            if not is_refusal(error):
                raise
            return "[values that are not known]"

    printing._tensor_str = of_host_copy


def save_as_floats(torch):
    """torch.save reads a storage as bytes, and so does a copy of a storage; one that is not known is read as single precision instead, whatever
    its tensors are."""
    base = torch.storage._StorageBase
    inner, copy, write = base.cpu, torch.UntypedStorage.copy_, torch._C.StorageBase._write_file

    def read(host, storage, **options):
        count = storage.nbytes() // 4
        to, from_ = (torch.empty(0, device=each.device).set_(each, 0, (count,)) for each in (host, storage))
        to.copy_(from_, **options)
        return host

    def cpu(storage):
        try:
            return inner(storage)
        except RuntimeError as error:
            if not is_refusal(error):
                raise
        return read(torch.UntypedStorage(storage.nbytes()), storage)

    def copy_(self, source, non_blocking=None):
        options = {} if non_blocking is None else {"non_blocking": non_blocking}
        try:
            return copy(self, source, **options)
        except RuntimeError as error:
            if not is_refusal(error) or self.device.type != "cpu" or source.nbytes() != self.nbytes():
                raise
        return read(self, source, **options)

    def _write_file(storage, *words):
        return write(cpu(storage) if storage.device.type == "cuda" else storage, *words)

    torch.storage._StorageBase.cpu = cpu
    torch.UntypedStorage.copy_ = copy_
    torch.UntypedStorage._write_file = _write_file


def tune_without_copies(module, run):
    """While Inductor's autotuner measures a kernel, it keeps on the host what the kernel changes, and brings it back. Kernels change nothing
    here, and values that are not known cannot come to the host: the buffers are allocated, and nothing is copied."""
    run(module)
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

    class NoCopies(TorchFunctionMode):
        def __torch_function__(self, function, types, words=(), named=None):
            return words[0] if function is Tensor.copy_ else function(*words, **(named or {}))

    def without_copies(inner):
        def outer(*words, **named):
            with NoCopies():
                return inner(*words, **named)

        return functools.wraps(inner)(outer)

    for name in ("copy_args_to_cpu_if_needed", "restore_args_from_cpu"):
        if hasattr(module.CachingAutotuner, name):  # since torch 2.6
            setattr(module.CachingAutotuner, name, without_copies(getattr(module.CachingAutotuner, name)))
