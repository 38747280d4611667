"""linalg_numbers.py COUNT: torch.linalg on random matrices, on the virtual device as on the CPU, to the bit. Prints what differs."""
import random
import sys

import torch

L = torch.linalg
TYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def spd(a):
    return a @ a.mH + a.shape[-1] * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def lower(a):
    return a.tril() + a.shape[-1] * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


SQUARE = {  # of a matrix, of one that is positive definite, and of right sides
    "cholesky": lambda a, s, b: L.cholesky(s), "cholesky upper": lambda a, s, b: L.cholesky(s, upper=True), "cholesky_ex": lambda a, s, b: L.cholesky_ex(s),
    "cholesky_solve": lambda a, s, b: torch.cholesky_solve(b, lower(a)), "cholesky_inverse": lambda a, s, b: torch.cholesky_inverse(lower(a)),
    "eigh": lambda a, s, b: L.eigh(s), "eigvalsh": lambda a, s, b: L.eigvalsh(s), "eig": lambda a, s, b: L.eig(a), "eigvals": lambda a, s, b: L.eigvals(a),
    "solve": lambda a, s, b: L.solve(s, b), "solve left": lambda a, s, b: L.solve(s, b.mT, left=False), "inv": lambda a, s, b: L.inv(s), "inv_ex": lambda a, s, b: L.inv_ex(a),
    "det": lambda a, s, b: L.det(a), "slogdet": lambda a, s, b: L.slogdet(a), "lu_solve": lambda a, s, b: L.lu_solve(*L.lu_factor(s), b),
    "ldl": lambda a, s, b: L.ldl_factor(s), "triangular": lambda a, s, b: L.solve_triangular(lower(a), b, upper=False), "matrix_exp": lambda a, s, b: L.matrix_exp(a / 8),
    "matrix_power": lambda a, s, b: L.matrix_power(s, -2), "cond": lambda a, s, b: L.cond(s), "tensorinv": lambda a, s, b: L.tensorinv(s, 1) if s.dim() == 2 else s,
}
ANY = {
    "qr": lambda a: L.qr(a), "qr complete": lambda a: L.qr(a, mode="complete"), "qr r": lambda a: L.qr(a, mode="r")[1], "geqrf": lambda a: torch.geqrf(a),
    "svd": lambda a: L.svd(a, full_matrices=False), "svd full": lambda a: L.svd(a), "svdvals": lambda a: L.svdvals(a), "gesvd": lambda a: L.svd(a, False, **of_gpu(a, "gesvd")),
    "gesvda": lambda a: L.svd(a, False, **of_gpu(a, "gesvda")), "pinv": lambda a: L.pinv(a), "matrix_rank": lambda a: L.matrix_rank(a), "norm": lambda a: L.matrix_norm(a, 2),
    "lu": lambda a: L.lu(a), "lu_factor": lambda a: L.lu_factor(a), "lstsq": lambda a: L.lstsq(a, a[..., :1], driver="gels")[0] if a.shape[-2] >= a.shape[-1] else a,
    "householder": lambda a: L.householder_product(*torch.geqrf(a)) if a.shape[-2] >= a.shape[-1] else a,
    "ormqr": lambda a: torch.ormqr(*torch.geqrf(a), torch.ones_like(a)) if a.shape[-2] >= a.shape[-1] else a,
}


def of_gpu(a, driver):
    return {"driver": driver} if a.is_cuda else {}


def flat(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def gradients(call, inputs):
    for one in inputs:
        one.requires_grad_()
    total = sum(part.abs().sum() for part in flat(call(*inputs)) if part.is_floating_point() or part.is_complex())
    return torch.autograd.grad(total, inputs, allow_unused=True)


def main():
    torch.manual_seed(0)
    random.seed(0)
    compared = differ = refused = 0
    for round_ in range(int(sys.argv[1])):
        for name, call in (*SQUARE.items(), *ANY.items()):
            type_, m = random.choice(TYPES), random.choice((1, 2, 3, 7, 16, 33))
            n, batch = random.choice((1, 2, 5, 16, 33)), random.choice(((), (), (1,), (3,), (2, 2)))
            if name in SQUARE:
                a = torch.randn(*batch, m, m, dtype=type_)
                inputs = [a, spd(a), torch.randn(*batch, m, n, dtype=type_)]
            else:
                inputs = [torch.randn(*batch, m, n, dtype=type_)]
            with_gradient = round_ % 3 == 2 and name in ("cholesky", "eigh", "solve", "inv", "slogdet", "qr r", "svdvals", "pinv", "matrix_exp") and m >= n
            try:
                expected = gradients(call, [x.clone() for x in inputs]) if with_gradient else flat(call(*inputs))
            except Exception as error:
                expected = str(error)
            try:
                measured = [x.detach().cuda() for x in inputs]
                measured = gradients(call, measured) if with_gradient else flat(call(*measured))
            except Exception as error:
                measured = str(error)
            compared += 1
            if isinstance(expected, str) or isinstance(measured, str):
                same = isinstance(expected, str) and isinstance(measured, str)
                refused += same
            else:
                same = all((x is None and y is None) or torch.equal(x.resolve_conj(), y.cpu().resolve_conj()) for x, y in zip(expected, measured, strict=True))
            if not same:
                differ += 1
                print(name, "gradient" if with_gradient else "", type_, tuple(inputs[0].shape), tuple(inputs[-1].shape), measured if isinstance(measured, str) else
                      expected if isinstance(expected, str) else [float((x - y.cpu()).abs().max()) for x, y in zip(expected, measured) if x is not None and x.numel()])
    print(f"{compared} compared, {differ} differ, {refused} refused by both")


main()
