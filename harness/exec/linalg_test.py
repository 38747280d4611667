#!/usr/bin/env python3
"""linalg_test.py TIDEMARK SITE CASE: programs with the operators of cuSOLVER and cuSPARSE."""
import re

from testing.said import HERE, Said, python, run

WARNING = "cuSOLVER's workspaces are modelled"


def case_dense():
    """Every operator of torch.linalg on matrices at random, of every type, as on the CPU."""
    said = Said("--mode", "math", "--", "python3", HERE / "linalg_numbers.py", 12).ends(0)
    found = re.search(r"(\d+) compared, (\d+) differ, (\d+) refused by both", said.out)
    said.check(found and int(found[1]) == 12 * 39 and found[2] == "0" and int(found[3]) < 40, said.out[-600:])


def case_modes():
    """Optimizers that decompose have one peak in all modes; what failed is said in math as on a GPU, and nothing is said of what is not computed."""
    peaks = {}
    for mode in ("shapes", "known", "math"):
        said = Said("--mode", mode, "--schedule", "instant", "--", "python3", HERE / "second_order.py").ends(0)
        peaks[mode] = re.search(r"process \d+ +(.*)", said.err)[1]
    said.check(len(set(peaks.values())) == 1, str(peaks))
    fails = "torch.linalg.cholesky(-torch.eye(3, device='cuda'))"
    python(fails, "--mode", "math").ends(1, "linalg.cholesky: The factorization could not be completed because the input is not positive-definite")
    said = python("x = torch.randn(300, 300, device='cuda')\ntorch.linalg.cholesky(x)\ntorch.linalg.svd(x)\ntorch.linalg.solve(x, x)", "--mode", "known").ends(0)
    said.check("control flow" not in said.err and "_linalg_check_errors" in said.err, "no branch of the program's")


def case_workspaces():
    """Modelled where no call of an H100 had these sizes, or the GPU is another."""
    for gpu, size, modelled in (("h100-80g", 128, False), ("h100-80g", 129, True), ("a100-80g", 128, True)):
        said = python(f"torch.linalg.qr(torch.randn({size}, {size}, device='cuda'))", "--gpu", gpu).ends(0)
        said.check((WARNING in said.err) == modelled, f"{gpu}, {size}")


if __name__ == "__main__":
    run(globals())
