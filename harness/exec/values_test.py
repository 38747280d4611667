"""Values that are not known: programs that read them, keep them, or take sizes from them."""
import sys

from testing.said import HERE, Said, python


# holds: harness/exec/README.md, Values
def test_read():
    big = "x = torch.empty(1 << 20, device='cuda')\n"
    result = python(big + "if (x > 0).any(): print('any')\nprint(x.sum().item(), x[:2])\nprint((x > 0).sum())").ends(
        0, "control flow depended on values that are not known: <string>:3\npeaks, MiB", "<string>:3  aten::any  no, 1 time", "<string>:4  item  1.0, ")
    result.check(result.out == "1.0 tensor([1., 1.], device='cuda:0')\ntensor([values that are not known], device='cuda:0')\n", "what is printed")
    python(big + "x[x > 0]").ends(1, "the size of aten::nonzero depends on values that are not known", "--sizes")
    python("rows = torch.nn.Embedding(9, 4, sparse=True).cuda()\nrows(torch.tensor([1, 1], device='cuda')).sum().backward()\n"
           "torch.optim.SparseAdam(rows.parameters()).step()").ends(0)
    python(big + "torch.sparse_coo_tensor(x[None, :8].long(), x[:8], (9,)).coalesce()").ends(1, "the size of aten::_coalesce depends on values that are not known")
    python(big + "print((x > 0).sum().item())").ends(1, "a value of type Long that is not known is read", "--sizes")


# night: seven more programs; test_read has a program of each kind of read by day
def test_kept():
    """Values that are not known, in bins, in files, and as sizes that the user says."""
    big = "x = torch.empty(1 << 20, device='cuda')\n"
    for mode in "known", "math":  # CUDA's bins of integers; the CPU has none
        result = python("i = torch.tensor([0, 1, 1, 5, 7, 7, 9], device='cuda', dtype=torch.int32)\nprint(i.histc(4, 0, 7).tolist(), i.histc(3).tolist())",
                      "--mode", mode).ends(0)
        result.check(result.out == "[3, 0, 1, 2] [3, 1, 3]\n", "tokens of each expert")
    # Storages are saved as bytes, by torch.save and by pickle; known ones as they are.
    result = python("import io, pickle\n" + big + "kept = []\nfor y in x, x.bfloat16(), torch.arange(3, device='cuda'):\n"
                  "  for new in True, False:\n    file = io.BytesIO()\n    torch.save([y], file, _use_new_zipfile_serialization=new)\n    file.seek(0)\n"
                  "    kept += torch.load(file, map_location='cpu')\n  kept.append(pickle.loads(pickle.dumps(y)).cpu())\n"
                  "print([k.isfinite().all().item() for k in kept], kept[0][:2].tolist(), kept[6].tolist(), kept[7].tolist())").ends(0)
    result.check(result.out == f"{[True] * 9} [1.0, 1.0] [0, 1, 2] [0, 1, 2]\n", "what is saved")
    result = python(big + "print(x[x > 0].numel(), (x > 0).sum().item(), x.view(-1, 4).topk(2)[1].flatten().bincount().tolist())",
                  "--sizes", "balanced,25%").ends(0)
    result.check(result.out == f"{1 << 18} {1 << 18} {[1 << 17] * 4}\n", "sizes that the user says")
    result = Said("--as-rank", "0,3", "--of", 4, "--", sys.executable, HERE / "scaler.py").ends(0, "rank 0 ", "rank 3 ", "own values")
    result.check(result.out.count("steps {3.0}") == 2, "DistributedDataParallel without partners")
