"""Ends a program whose training steps repeat (`tidemark fit --until-steady`). A step repeats if the peaks of the allocator are those of the step
before it, and as many bytes are allocated at its end. The folder of the setting `steady` has files of each process that has made a step: PID.steady, with the
number of steps, says that they repeat. A program of several ranks ends when all of them repeat. The others have a figure each:

    PID.steps        length of a step on the clock of the virtual device, in ns
    PID.collectives  calls of NCCL in a step
    PID.tokens       the most indices that an nn.Embedding got in a step   (not of code that torch.compile compiles)
    PID.logits       elements of the largest input of cross_entropy        (likewise)
    PID.states       elements of the optimizers' states of 32 bits; of those with less than 4,096 none, as in 8-bit optimizers
    PID.shards       ranks over which FSDP shards"""
import gc
import importlib
import os
import sys
import weakref

import tidemark_collector
import tidemark_files
import tidemark_platform
from tidemark_settings import settings

MOST = 4  # steps of which the length and the collectives are read
LEAST = 4096  # elements of a state that an 8-bit optimizer makes smaller


def states_of(torch, optimizer):
    """States of 32 bits in the memory of a GPU."""
    tensors = [value for state in optimizer.state.values() if isinstance(state, dict) for value in state.values() if isinstance(value, torch.Tensor)]
    return [tensor for tensor in tensors if tensor.dtype == torch.float32 and tensor.is_cuda]


def elements(tensor):
    """On this rank."""
    return getattr(tensor, "_local_tensor", tensor).numel()


def shards_of(thing):
    """Ranks over which this part of FSDP2 or FSDP1 shards; 0: it is none."""
    kind = type(thing).__name__
    if kind == "FSDPParamGroup":
        return getattr(thing.mesh_info, "shard_mesh_size", 0)
    return thing.process_group.size() if kind == "FullyShardedDataParallel" and thing.sharding_strategy.name != "NO_SHARD" else 0


class Steady:
    def __init__(self, torch, record):
        self.torch, self.record, self.folder = torch, record, settings()["steady"]
        self.ends, self.is_alone = settings()["steady_ends"], settings()["alone"] >= 0
        self.steps, self.marked = 0, False
        self.optimizers = {}  # of each: the figures after its last step, and whether that step repeated
        self.calls, self.states, self.known = 0, 0, weakref.WeakSet()  # calls of NCCL until the last step
        self.indices, self.tokens, self.logits = {}, 0, 0  # of each embedding in this step; the most of a step; of all calls
        self.count_tokens()
        self.measure_logits()
        importlib.import_module("torch.optim.optimizer").register_optimizer_step_post_hook(tidemark_collector.own.of(self.after_step))

    def count_tokens(self):
        embedding, task = self.torch.nn.Embedding, self.torch._C._current_graph_task_id

        def counted(module, *words, **_):
            if task() == -1 and words:  # not while it is recomputed in a backward
                self.indices[id(module)] = self.indices.get(id(module), 0) + words[0].numel()

        embedding.forward = tidemark_collector.own.around(embedding.forward, counted)

    def measure_logits(self):
        def measured(*words, **_):
            if words and words[0].numel() > self.logits:
                self.logits = words[0].numel()
                self.write("logits", self.logits)

        functional = self.torch.nn.functional
        functional.cross_entropy = tidemark_collector.own.around(functional.cross_entropy, measured)

    def figures(self):
        """The highest figures of each GPU until now, and what is allocated."""
        values = []
        for device in range(self.torch.cuda.device_count()):
            stats = self.torch.cuda.memory_stats_as_nested_dict(device)
            if stats:
                values += [stats[name]["all"]["peak"] for name in ("allocated_bytes", "active_bytes", "reserved_bytes")]
                values.append(stats["allocated_bytes"]["all"]["current"])
        return values

    def write(self, ending, number):
        place = os.path.join(self.folder, f"{os.getpid()}.{ending}")
        with tidemark_files.create(place + ".new") as file:
            file.write(str(number))
        os.replace(place + ".new", place)

    def after_step(self, optimizer, _arguments, _keywords):
        if not self.torch.cuda.is_initialized():
            return
        self.steps += 1
        if max(self.indices.values(), default=0) > self.tokens:
            self.tokens = max(self.indices.values())
            self.write("tokens", self.tokens)
        self.indices.clear()
        if optimizer not in self.known:
            self.known.add(optimizer)
            self.states += sum(count for count in map(elements, states_of(self.torch, optimizer)) if count >= LEAST)
            self.write("states", self.states)
            self.write("shards", max(map(shards_of, gc.get_objects()), default=0) if "torch.distributed.fsdp" in sys.modules else 0)
        if self.steps <= MOST:
            self.write("steps", self.record.labels.trace.length() if self.record.labels else 0)
            calls = sum(one["calls"] for one in tidemark_platform.read("tidemark_nccl_calls"))
            self.write("collectives", calls - self.calls)
            self.calls = calls
        figures, before = self.figures(), self.optimizers.get(id(optimizer))
        self.optimizers[id(optimizer)] = (figures, before is not None and before[0] == figures)
        if not self.ends or not all(repeats for _, repeats in self.optimizers.values()):
            return
        if not self.marked:
            self.marked = True
            self.write("steady", self.steps)
        if self.all_repeat():
            self.end()

    def all_repeat(self):
        """All ranks repeat, and this one has made a step since the last of them said so: what they wait for has been sent."""
        distributed = self.torch.distributed
        world = distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
        if world == 1 or self.is_alone:
            return True
        marks = []
        for name in os.listdir(self.folder):
            if name.endswith(".steady"):
                with open(os.path.join(self.folder, name), encoding="ascii") as file:
                    marks.append(int(file.read()))
        return len(marks) >= world and self.steps > max(marks)

    def end(self):
        self.record.leave()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
