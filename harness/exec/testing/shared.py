"""shared.py KIND: a process that sends tensors on its GPU to another one through a queue of torch.multiprocessing (KIND memory, also with expandable segments), and
an event (KIND event), or that ends before they are opened (KIND ended). Prints what both sides saw."""
import os
import sys

import torch
import torch.multiprocessing as mp


def other(kind, tensors, answers):
    free = torch.cuda.mem_get_info()[0]
    x = tensors.get()
    answers.put((str(x.device), tuple(x.shape), x[:4].tolist(), free - torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()))
    x[1:3] = 7
    torch.cuda.synchronize()
    answers.put("written")
    tensors.get()  # it is read


def memory():
    answers, tensors = mp.SimpleQueue(), mp.SimpleQueue()
    process = mp.Process(target=other, args=("memory", tensors, answers))
    process.start()
    x = torch.arange(40, device="cuda").view(10, 4)[2:].reshape(-1)
    tensors.put(x)
    print(answers.get())
    print(answers.get(), x[:4].tolist(), torch.cuda.memory_allocated())
    tensors.put("read")
    process.join()
    del x
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    print(process.exitcode, torch.cuda.memory_allocated(), torch.cuda.memory_reserved())


def wait_for(handle, answers):
    event = torch.cuda.Event.from_ipc_handle(torch.device("cuda:0"), handle)
    event.synchronize()
    torch.cuda.current_stream().wait_event(event)
    answers.put(event.query())


def event():
    answers = mp.SimpleQueue()
    one = torch.cuda.Event(interprocess=True)
    torch.cuda._sleep(1000)
    one.record()
    process = mp.Process(target=wait_for, args=(one.ipc_handle(), answers))
    process.start()
    print(answers.get())
    process.join()
    print(process.exitcode)


def send_and_end(tensors):
    tensors.put(torch.ones(4, device="cuda").untyped_storage()._share_cuda_())
    os._exit(0)


def ended():
    tensors = mp.SimpleQueue()
    process = mp.Process(target=send_and_end, args=(tensors,))
    process.start()
    parts = tensors.get()
    process.join()
    mine = torch.ones(4, device="cuda").untyped_storage()._share_cuda_()
    for handle in parts, mine:
        try:
            torch.UntypedStorage._new_shared_cuda(*handle)
            print("opened")
        except RuntimeError as error:
            print(str(error).splitlines()[0])


if __name__ == "__main__":
    mp.set_start_method("spawn")
    {"memory": memory, "event": event, "ended": ended}[sys.argv[1]]()
