"""The plain tensors that a value of a program consists of."""


def plain_tensors(torch, value):
    """Yields the tensors that have memory of their own: those of a list or dictionary, of a subclass (DTensor, quantised weights, NestedTensor), of
    a sparse tensor, and below the wrappers of torch.func."""
    functions = torch._C._functorch
    after = [value]
    while after:
        one = after.pop()
        if isinstance(one, (list, tuple)):
            after += one
        elif isinstance(one, dict):
            after += one.values()
        elif not isinstance(one, torch.Tensor):
            continue
        elif functions.is_functorch_wrapped_tensor(one):
            after.append(functions.get_unwrapped(one))
        elif hasattr(one, "__tensor_flatten__"):
            after += [getattr(one, name) for name in one.__tensor_flatten__()[0]]
        elif one.layout is torch.sparse_coo:
            after += (one._indices(), one._values())
        elif one.layout in (torch.sparse_csr, torch.sparse_bsr):
            after += (one.crow_indices(), one.col_indices(), one.values())
        elif one.layout in (torch.sparse_csc, torch.sparse_bsc):
            after += (one.ccol_indices(), one.row_indices(), one.values())
        else:
            yield one
