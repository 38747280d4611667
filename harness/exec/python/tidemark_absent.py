"""A process that is one rank of many, without its partners (`--as-rank R --of W`): what torch.distributed asks of other processes is
answered here. The answer is what this rank itself has given. Objects that one rank sends to another come from that rank, where the same
command runs it too. Every other question is refused by name."""
import atexit
import copy
import ctypes
import datetime
import pickle
import re
import sys
import types

import tidemark_checkpoints
from tidemark_partners import Partners
from tidemark_platform import is_refusal, when_imported

# No partner can be late. Until the host waits for it, the virtual GPU may lag behind by any time of the host's clock, by which PyTorch's
# watchdog would end the process.
NO_TIMEOUT = datetime.timedelta(days=3650)


def begin(torch, rank, world):
    """Right after `import torch`."""
    import torch.distributed as dist
    from torch._C import _distributed_c10d
    from torch.distributed import distributed_c10d as c10d

    rendezvous = sys.modules["torch.distributed.rendezvous"]  # a function has the same name
    store = make_store(dist)

    def meet(_url, **_options):
        yield store, rank, world

    for scheme in list(rendezvous._rendezvous_handlers):
        rendezvous._rendezvous_handlers[scheme] = meet
    make_fake = getattr(_distributed_c10d.FakeProcessGroup, "_create_internal", _distributed_c10d.FakeProcessGroup)  # the class before torch 2.9
    dist.Backend.register_backend("absent", lambda group, _: make_fake(group.group_rank, group.group_size), extended_api=True,
                                  devices=["cpu", "cuda"])  # its collectives do nothing
    initialise, make_group, rank_of_process = c10d.init_process_group, c10d.new_group, rank

    def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, **options):
        del init_method, timeout, world_size, rank, store
        return initialise(without_gloo(backend or "cpu:gloo,cuda:nccl"), None, NO_TIMEOUT, **options)

    def new_group(ranks=None, timeout=None, backend=None, **options):
        del timeout
        if ranks and rank_of_process not in ranks and 0 <= min(ranks) and max(ranks) < world:
            if not options.get("use_local_synchronization"):
                c10d._world.group_count += 1  # a group's number is its name
            return dist.GroupMember.NON_GROUP_MEMBER  # which PyTorch gives too, after work for every such group of a device mesh
        return make_group(ranks, NO_TIMEOUT, without_gloo(backend), **options)

    def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None):
        parent = dist.get_process_group_ranks(parent_pg or dist.group.WORLD)
        for ranks in split_ranks or ():
            members = [parent[place] for place in ranks]
            if dist.get_rank() in members:
                return new_group(members, timeout=timeout, pg_options=pg_options, group_desc=group_desc)
        return None

    partners = Partners(rank)
    replace([dist, c10d, sys.modules["torch.distributed.device_mesh"]], init_process_group=init_process_group, new_group=new_group,
            split_group=split_group, **object_collectives(torch, dist, c10d, partners))
    values = SmallValues(torch, dist, c10d, partners)
    replace([dist, c10d], **values.functions())
    when_imported("torch.distributed.pipelining.stage", values.follow_votes)
    # Every group gets a communicator of its own: a split needs the partners' colors.
    c10d._get_split_source = lambda _group: None
    c10d._set_pg_timeout = lambda *_: None
    # DDP compares the shapes of its parameters on all ranks, as numbers of the device.
    _distributed_c10d._verify_params_across_processes = lambda *_, **__: None
    dist._verify_params_across_processes = _distributed_c10d._verify_params_across_processes
    enumerate_meshes_faster()
    when_imported("torch.distributed.tensor._random", keep_random_state_on_host)
    when_imported("torch.distributed.checkpoint.utils", tidemark_checkpoints.keep_own_part(partners.present))
    when_imported("torch.distributed.checkpoint.default_planner", tidemark_checkpoints.accept_own_part)
    when_imported("torch.distributed.optim.zero_redundancy_optimizer", tidemark_checkpoints.refuse_absent(partners.refuse))
    when_imported("deepspeed.runtime.zero.utils", compare_with_own_lists)
    # The watchdog thread of a group that is left alive uses libtorch's static objects after their end, and crashes.
    atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())


def without_gloo(backend):
    """Gloo would connect to every rank at once."""
    return backend and re.sub(r"\bgloo\b", "absent", str(backend))


def replace(modules, **functions):
    for name, function in functions.items():
        for module in modules:
            if hasattr(module, name):
                setattr(module, name, function)


def make_store(dist):
    class AbsentStore(dist.Store):
        """Keeps what this rank sets; waits for no other, and makes a unique id where another would have set one."""

        def __init__(self):
            super().__init__()
            self.kept = {}

        def set(self, key, value):
            self.kept[key] = value.encode() if isinstance(value, str) else bytes(value)

        def get(self, key):
            if key not in self.kept:
                made = ctypes.create_string_buffer(128)
                ctypes.CDLL(None).ncclGetUniqueId(made)
                self.kept[key] = made.raw
            return self.kept[key]

        def add(self, key, amount):
            self.kept[key] = str(int(self.kept.get(key, b"0")) + amount).encode()
            return int(self.kept[key])

        def wait(self, keys, timeout=None):
            pass

        def check(self, keys):
            return all(key in self.kept for key in keys)

        def delete_key(self, key):
            return self.kept.pop(key, None) is not None

        def num_keys(self):
            return len(self.kept)

    return AbsentStore()


def object_collectives(torch, dist, c10d, partners):
    def source_of(group, src, group_src):
        return dist.get_global_rank(group or dist.group.WORLD, group_src) if group_src is not None else (0 if src is None else src)

    def all_gather_object(object_list, obj, group=None):
        object_list[:] = [copy.deepcopy(obj) for _ in object_list]

    def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
        if object_gather_list is not None:
            all_gather_object(object_gather_list, obj)

    def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
        if source_of(group, src, group_src) != dist.get_rank() and all(one is None for one in object_list):
            partners.refuse(source_of(group, src, group_src))

    def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
        if not scatter_object_input_list:
            partners.refuse(source_of(group, src, group_src))
        scatter_object_output_list[0] = scatter_object_input_list[dist.get_rank(group)]

    send, receive = c10d.send_object_list, c10d.recv_object_list

    def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, **options):
        partners.send(source_of(group, dst, group_dst), pickle.dumps([pickle.dumps(one) for one in object_list]))
        with partners.within():
            return send(object_list, source_of(group, dst, group_dst), group, device, **options)

    def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, **options):
        """PyTorch's own, with its allocations; what the partner has sent is written into the tensors that it receives."""
        source = source_of(group, src, group_src)
        objects = pickle.loads(partners.receive(source, dist.get_process_group_ranks(group) if group else []))
        contents = iter([torch.tensor([len(one) for one in objects]), torch.frombuffer(bytearray(b"".join(objects)), dtype=torch.uint8)])
        inner = {"recv": c10d.recv, "batch_isend_irecv": getattr(c10d, "batch_isend_irecv", None)}

        def recv(tensor, *arguments, **keywords):
            sender = inner["recv"](tensor, *arguments, **keywords)
            tensor.copy_(next(contents))
            return sender

        def batch_isend_irecv(operations):
            works = inner["batch_isend_irecv"](operations)
            for work in works:
                work.wait()
            operations[0].tensor.copy_(next(contents))
            return works

        c10d.recv, c10d.batch_isend_irecv = recv, batch_isend_irecv
        try:
            with partners.within():
                return receive(object_list, source, group, device, **options)
        finally:
            c10d.recv, c10d.batch_isend_irecv = inner["recv"], inner["batch_isend_irecv"]

    return {name: value for name, value in locals().items() if name.endswith(("_object", "_object_list"))}


class SmallValues:
    """Integers that one rank sends to another (a vote, shapes, lengths): the value comes from that rank, where the same command runs it too and
    its value is known. PyTorch's own call runs as well, with its allocations."""

    MOST = 64 << 10  # bytes

    def __init__(self, torch, dist, c10d, partners):
        self.torch, self.dist, self.c10d, self.partners = torch, dist, c10d, partners
        self.vote = None  # of this rank's stage, while it waits for that of an absent one

    def is_small(self, tensor):
        of_integers = not (tensor.is_floating_point() or tensor.is_complex())
        return of_integers and tensor.is_cuda and not self.partners.inside and 0 < tensor.numel() * tensor.element_size() <= self.MOST

    def partner(self, group, rank, group_rank):
        return rank if group_rank is None else self.dist.get_global_rank(group or self.dist.group.WORLD, group_rank)

    def sent(self, tensor, receiver):
        if not self.is_small(tensor) or receiver not in self.partners.present:
            return
        try:
            value = tensor.cpu().tolist()
        except RuntimeError as error:
            if not is_refusal(error):
                raise
            value = None  # not known here either
        self.partners.send(receiver, pickle.dumps(value))

    def received(self, tensor, source, group):
        if not self.is_small(tensor):
            return
        if source in self.partners.present:
            value = pickle.loads(self.partners.receive(source, self.dist.get_process_group_ranks(group) if group else []))
        else:
            value = self.vote
        if value is not None:
            tensor.copy_(self.torch.tensor(value, dtype=tensor.dtype).view(tensor.shape))

    def functions(self):
        inner = {name: getattr(self.c10d, name) for name in ("send", "recv", "isend", "irecv", "batch_isend_irecv")}

        def send(tensor, dst=None, group=None, tag=0, group_dst=None):
            self.sent(tensor, self.partner(group, dst, group_dst))
            return inner["send"](tensor, self.partner(group, dst, group_dst), group, tag)

        def recv(tensor, src=None, group=None, tag=0, group_src=None):
            source = self.partner(group, src, group_src)
            sender = inner["recv"](tensor, source, group, tag)
            if source is not None:
                self.received(tensor, source, group)
            return sender

        def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
            self.sent(tensor, self.partner(group, dst, group_dst))
            return inner["isend"](tensor, self.partner(group, dst, group_dst), group, tag)

        def irecv(tensor, src=None, group=None, tag=0, group_src=None):
            source = self.partner(group, src, group_src)
            work = inner["irecv"](tensor, source, group, tag)
            return work if source is None or not self.is_small(tensor) else Arrives(work, lambda: self.received(tensor, source, group))

        def batch_isend_irecv(operations):
            for one in operations:
                if one.op is isend:
                    self.sent(one.tensor, one.peer)
            arriving = [one for one in operations if one.op is irecv and self.is_small(one.tensor)]
            with self.partners.within():
                works = inner["batch_isend_irecv"](operations)
            if not arriving or not works:
                return works

            def arrive():
                for one in arriving:
                    self.received(one.tensor, one.peer, one.group)

            return [Arrives(works[0], arrive), *works[1:]]

        return {"send": send, "recv": recv, "isend": isend, "irecv": irecv, "batch_isend_irecv": batch_isend_irecv}

    def follow_votes(self, stage):
        """From torch 2.12 on the stages of a pipeline vote whether all of them know their shapes. An absent stage votes as this one does."""
        for name in ("_warmup_forward_vote", "_warmup_backward_result"):
            if hasattr(stage.PipelineStage, name):
                setattr(stage.PipelineStage, name, self.voting(stage, getattr(stage.PipelineStage, name)))

    def voting(self, module, inner):
        def vote(stage, *words, **named):
            has_backward = words[0] if inner.__name__ == "_warmup_forward_vote" else stage.has_backward
            self.vote = [0 if module.InferenceMode.needs_dynamic(stage._user_meta, has_backward) else 1]
            try:
                return inner(stage, *words, **named)
            finally:
                self.vote = None

        vote.__name__ = inner.__name__
        return vote


class Arrives:
    """A work of PyTorch's whose values come from a partner when the program waits for it."""

    def __init__(self, work, arrive):
        self.work, self.arrive = work, arrive

    def __getattr__(self, name):
        return getattr(self.work, name)

    def wait(self, *words, **named):
        done = self.work.wait(*words, **named)
        arrive, self.arrive = self.arrive, lambda: None
        arrive()
        return done


def enumerate_meshes_faster():
    """A device mesh lists all ranks of the job many times, with sums that are most of a program's start at 16,384 ranks. These are the same lists."""
    try:
        from torch.distributed import _mesh_layout
    except ImportError:
        return  # before torch 2.10

    def all_ranks_from_zero(layout):
        ranks = [0]
        for size, stride in zip(_mesh_layout.flatten(layout.sizes), _mesh_layout.flatten(layout.strides)):
            ranks = [rank + place * stride for rank in ranks for place in range(size)]
        return ranks

    if hasattr(_mesh_layout, "flatten") and hasattr(_mesh_layout._MeshLayout, "all_ranks_from_zero"):
        _mesh_layout._MeshLayout.all_ranks_from_zero = all_ranks_from_zero


def compare_with_own_lists(module):
    """DeepSpeed's stage 3 compares lists with those of rank 0, to which every other rank sets -1 before rank 0 broadcasts. Here each rank does what
    rank 0 does: the same tensors, and its own list comes back."""
    own = module.dist
    first = types.SimpleNamespace(**{**vars(own), "get_rank": lambda *_: 0})

    def as_first(function):
        def call(numbers):
            module.dist = first
            try:
                return function(numbers)
            finally:
                module.dist = own

        return call

    for name in ("assert_lst_len_same_as_other_ranks", "get_lst_from_rank0"):
        if hasattr(module, name):
            setattr(module, name, as_first(getattr(module, name)))


def keep_random_state_on_host(random):
    """DTensor copies the random state to the device and reads it there; here it reads the host's. What it broadcasts is on the device, as a group
    of NCCL alone wants it, and every rank has the same."""
    import torch.distributed as dist

    begin, broadcast = random.OffsetBasedRNGTracker.__init__, dist.broadcast

    def of_device(tensor, *words, **named):
        return broadcast(tensor.cuda() if tensor.device.type == "cpu" else tensor, *words, **named)

    def __init__(tracker, *words, **named):
        dist.broadcast = of_device
        try:
            begin(tracker, *words, **named)
        finally:
            dist.broadcast = broadcast

    random.OffsetBasedRNGTracker.__init__ = __init__

    def state(tracker):
        rng_state = tracker._device_handle.get_rng_state()
        rng_state.to(tracker._device)
        return rng_state

    random.OffsetBasedRNGTracker._get_device_state = state
