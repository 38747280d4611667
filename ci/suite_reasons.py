"""Failures of the tests of PyTorch and of libraries that are expected on the virtual platform, for ci/suite.py: each has a cause, a reason in a sentence, and the pattern of the
message or of the test that shows it. A failure that none of them names fails the command."""
import re
from dataclasses import dataclass

NAMED = re.compile(r"(?:[\w.]*(?:Error|Exception|Failed|Timeout|Exit)\b|tidemark\b)")


@dataclass(frozen=True)
class Reason:
    cause: str
    why: str
    message: str = ""  # regular expression, searched in all of the error
    test: str = ""  # regular expression, searched in "test/FILE.py::CLASS::TEST"

    def names(self, entry):
        return re.search(self.test, entry["test"]) is not None and re.search(self.message, entry["why"]) is not None


REASONS = (
    Reason("needs Triton", "The test compiles for the device, and this Python has no Triton.", message=r"working triton|No module named 'triton'|TritonMissing"),
    Reason("downloads", "The test downloads a file, and tests have no network.", message=r"URLError|Temporary failure in name resolution|HTTPError|ConnectionError.*Max retries|OfflineMode|LocalEntryNotFound|couldn't connect to|Couldn't reach|is gated\. You must be authenticated"),
    Reason("not in the source distribution", "The test reads a file that the source distribution of its library lacks.", message=r"FileNotFoundError: .*tests/test_\w+/.* does not exist"),
    Reason("compiles an extension", "The test compiles an extension, which wants CUDA's toolkit.", message=r"CUDA_HOME environment variable is not set|Ninja is required"),
    Reason("memory of the host", "The test computes on tensors of tens of GiB, which a GPU holds and this host does not.",
           message=r"ended by SIGKILL|DefaultCPUAllocator: can't allocate memory", test=r"(?i)large|64bit|tied_weights_memory"),
    Reason("TF32's rounding", "The operands are rounded as tensor cores read them, and the numbers are those of that rounding, beyond the test's tolerance; a GPU may choose an "
           "engine without TF32.", message="Tensor-likes are not close", test=r"::test_Conv2d_dilated_cuda_tf32$"),
    Reason("division of complex32", "The test expects that it fails, since CUDA's quotients of half-precision complex numbers have NaN where PyTorch's reference has none; "
           "here both are the CPU's.", message="Unexpected success", test=r"::test_python_ref\w*_refs_true_divide_cuda_complex32$"),
    Reason("computes for minutes", "The CPU computes for minutes what a GPU does in seconds, longer than the limit of a test.", message=r"did not end within",
           test=r"::test_(cudnn|cusparse)_multiple_threads_same_device$|::test_cuda_kernel_loop_overflow_large$|::test_owner_rref_forward_synchronization\d$"),
    Reason("needs a GPU's clock", "The test expects that two graphs which run at the same time spoil each other's memory; the virtual device computes one after the other.",
           test=r"::test_graph_concurrent_replay$"),
    Reason("downloads", "The test downloads a program that draws flame graphs.", test=r"^test/test_cuda\.py::.*\btest_memory_snapshot$"),
    Reason("compiles an extension", "The test compiles an extension, which wants CUDA's toolkit.", test=r"^test/test_cuda\.py::.*\btest_mempool_with_allocator$"),
    Reason("another torch", "The test imports modules that PyTorch has since 2.12 alone; with 2.14.1 it captures its traced step as a CUDA graph, which has not been tried since "
           "the platform has graphs.", test=r"/test_sac_peak_memory\.py::"),
    Reason("downloads", "The script downloads a model and a data set.", test=r"/external_deps/test_peak_memory_usage\.py::"),
)


def reason_of(entry):
    """The reason of a failure, None where it has none."""
    return next((reason for reason in REASONS if reason.names(entry)), None)


def last_line(text):
    """The last line of an error that names one, with the difference of tensors that it counts, else its last line."""
    lines = [re.sub(r"^(E|\[rank\d+\]:) ", "", line).strip() for line in text.splitlines() if line.strip()] or ["nothing was said"]
    differs = [line for line in lines if line.startswith(("Greatest absolute difference", "Absolute difference"))]
    return " ".join([([line for line in lines if NAMED.match(line)] or lines)[-1], *differs[-1:]])[:300]
