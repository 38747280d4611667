"""Changes of a program that need no edit of it (`tidemark advise`): the setting `changes` names them. A change says in the file
`changed`, a line each, what it has changed: "NAME WHAT"."""
import functools
import gc
import importlib

import tidemark_files
from tidemark_settings import settings


def optimizer_module():
    return importlib.import_module("torch.optim.optimizer")


class Changes:
    def __init__(self, torch):
        self.torch, self.reported = torch, set()
        for name in settings()["changes"]:
            getattr(self, name)()

    def say(self, name, what):
        if name not in self.reported and settings()["changed"]:
            self.reported.add(name)
            with tidemark_files.append(settings()["changed"]) as file:
                file.write(f"{name} {what}\n")

    def groups(self, name, change):
        """Changes the groups of each optimizer before its first step."""
        seen = set()

        def before(optimizer, _arguments, _keywords):
            if id(optimizer) in seen:
                return
            seen.add(id(optimizer))
            if change(optimizer):
                self.say(name, type(optimizer).__name__)

        optimizer_module().register_optimizer_step_pre_hook(before)

    def plain_optimizer(self):
        def change(optimizer):
            groups = [group for group in optimizer.param_groups if "foreach" in group and group["foreach"] is not False and not group.get("fused")]
            for group in groups:
                group["foreach"] = False
            return groups

        self.groups("plain_optimizer", change)

    def foreach_optimizer(self):
        def change(optimizer):
            groups = [group for group in optimizer.param_groups if group.get("foreach") is False and not group.get("fused")]
            for group in groups:
                group["foreach"] = True
            return groups

        self.groups("foreach_optimizer", change)

    def fused_optimizer(self):
        def change(optimizer):
            groups = [group for group in optimizer.param_groups if "fused" in group and not group["fused"]]
            for group in groups:
                group["fused"], group["foreach"] = True, False
            return groups

        self.groups("fused_optimizer", change)

    def set_to_none(self):
        def always(zero_grad):
            @functools.wraps(zero_grad)
            def zeroed(this, set_to_none=True):
                if not set_to_none:
                    self.say("set_to_none", "zero_grad(set_to_none=False)")
                return zero_grad(this, set_to_none=True)

            return zeroed

        for kind in (self.torch.optim.Optimizer, self.torch.nn.Module):
            kind.zero_grad = always(kind.zero_grad)

    def collect_garbage(self):
        def after(_optimizer, _arguments, _keywords):
            if gc.collect() > 0:
                self.say("collect_garbage", "cycles")

        optimizer_module().register_optimizer_step_post_hook(after)

    def bucket_view(self):
        parallel = self.torch.nn.parallel.DistributedDataParallel
        init = parallel.__init__

        def made(this, *arguments, **keywords):
            if not keywords.get("gradient_as_bucket_view"):
                self.say("bucket_view", "DistributedDataParallel")
            init(this, *arguments, **{**keywords, "gradient_as_bucket_view": True})

        parallel.__init__ = made

    def outermost(self, change):
        """Changes the outermost module when it is called for the first time."""
        begun = []

        def before(module, _inputs):
            if not begun:
                begun.append(module)
                change(module)

        self.torch.nn.modules.module.register_module_forward_pre_hook(before)

    def recompute(self, name, every):
        def change(root):
            kinds = (self.torch.nn.ModuleList, self.torch.nn.Sequential)
            lists = [module for module in root.modules() if isinstance(module, kinds) and len(module) > 1 and len({type(child) for child in module}) == 1 and
                     next(module[0].children(), None) is not None]  # of modules that have parts
            if not lists:
                return
            largest = max(lists, key=lambda one: sum(parameter.numel() for parameter in one.parameters()))
            for child in list(largest)[::every]:
                child.forward = functools.partial(self.torch.utils.checkpoint.checkpoint, child.forward, use_reentrant=False)
            self.say(name, f"{len(list(largest)[::every])} of {len(largest)} {type(largest[0]).__name__}")

        importlib.import_module("torch.utils.checkpoint")
        self.outermost(change)

    def recompute_all(self):
        self.recompute("recompute_all", 1)

    def recompute_half(self):
        self.recompute("recompute_half", 2)

    def autocast(self):
        """The outermost module runs in bf16; its backward follows."""
        running = []

        def enter(module, _inputs):
            if not running:
                if not self.torch.is_autocast_enabled("cuda"):
                    self.say("autocast", type(module).__name__)
                running.append((module, self.torch.autocast("cuda", self.torch.bfloat16)))
                running[0][1].__enter__()

        def leave(module, _inputs, _output):
            if running and running[0][0] is module:
                running.pop()[1].__exit__(None, None, None)

        hooks = self.torch.nn.modules.module
        hooks.register_module_forward_pre_hook(enter)
        hooks.register_module_forward_hook(leave, always_call=True)
