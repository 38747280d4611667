"""Ends a program whose training steps repeat (`tidemark fit --until-steady`). A step repeats if the peaks of the allocator are those of the step
before it, and as many bytes are allocated at its end. The folder TIDEMARK_STEADY has a file for each process that has made a step: PID.steps with the
length of a step on the clock of the virtual device, in ns. PID.steady, with the number of steps, says that they repeat. A program of several ranks
ends when all of them repeat."""
import importlib
import os
import sys

MOST = 4  # steps of which the length is read


class Steady:
    def __init__(self, torch, record):
        self.torch, self.record, self.folder = torch, record, os.environ["TIDEMARK_STEADY"]
        self.ends = os.environ.get("TIDEMARK_STEADY_ENDS") == "1"
        self.steps, self.marked = 0, False
        self.optimizers = {}  # of each: the figures after its last step, and whether that step repeated
        importlib.import_module("torch.optim.optimizer").register_optimizer_step_post_hook(self.after_step)

    def figures(self):
        """The highest figures of each GPU until now, and what is allocated."""
        found = []
        for device in range(self.torch.cuda.device_count()):
            stats = self.torch.cuda.memory_stats_as_nested_dict(device)
            if stats:
                found += [stats[name]["all"]["peak"] for name in ("allocated_bytes", "active_bytes", "reserved_bytes")]
                found.append(stats["allocated_bytes"]["all"]["current"])
        return found

    def write(self, ending, number):
        place = os.path.join(self.folder, f"{os.getpid()}.{ending}")
        with open(place + ".new", "w", encoding="ascii") as file:
            file.write(str(number))
        os.replace(place + ".new", place)

    def after_step(self, optimizer, _arguments, _keywords):
        if not self.torch.cuda.is_initialized():
            return
        self.steps += 1
        if self.steps <= MOST:
            self.write("steps", self.record.labels.trace.length() if self.record.labels else 0)
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
        if world == 1 or os.environ.get("TIDEMARK_EXEC_ALONE"):
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
