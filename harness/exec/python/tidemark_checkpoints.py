"""torch.distributed.checkpoint in a process that is one rank of many (`--as-rank`): each rank plans and writes its own part. The parts of the
absent ranks are missing in the checkpoint, and nothing is said about them."""
import dataclasses


def keep_own_part(present):
    """`change` of torch.distributed.checkpoint.utils. Every rank does what the coordinator does, with empty plans in the places of the other
    ranks. The lowest rank of the command writes the metadata: two ranks would write the same file."""

    def change(utils):
        def of_all(wrapper, own):
            """A plan, or what a rank has written or read, in its place among those of all ranks."""
            others = dataclasses.replace(own, items=[]) if dataclasses.is_dataclass(own) else []
            return [own if rank == wrapper.rank else others for rank in range(wrapper.get_world_size())]

        class Alone(utils._DistWrapper):
            def reduce_scatter(self, step, map_fun, reduce_fun):
                del step
                return reduce_fun(of_all(self, map_fun()))[self.rank]

            def all_reduce(self, step, map_fun, reduce_fun):
                own = of_all(self, map_fun())
                return reduce_fun(own) if step != "write" or not self.use_dist or utils.dist.get_rank() == min(present) else None

            def all_gather(self, step, map_fun):
                del step
                return of_all(self, map_fun())

            def broadcast(self, step, map_fun):
                del step
                return map_fun()

        utils._DistWrapper = Alone

    return change


def accept_own_part(planner):
    """PyTorch refuses a plan that does not cover every tensor."""
    planner._validate_global_plan = lambda *_: True


def refuse_absent(absent):
    """`change` of torch.distributed.optim.zero_redundancy_optimizer: the optimizer state of another rank is not here."""

    def change(module):
        broadcast = module._broadcast_object

        def from_own(obj, src_rank, *arguments, **keywords):
            if src_rank != module.dist.get_rank():
                absent(src_rank)
            return broadcast(obj, src_rank, *arguments, **keywords)

        module._broadcast_object = from_own

    return change
