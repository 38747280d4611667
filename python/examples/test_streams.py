"""Buffers of another stream, as a pair: what record_stream holds back where the device lags, and a wrong fix that has a race."""
import torch

import tidemark

ROUNDS, ELEMENTS = 5, 1 << 16
S = 4 * ELEMENTS


@tidemark.schedule("lagging")
@tidemark.pair(baseline="record_stream", fixed=["wait"], controls={"no_wait": "races/"})
def test_buffers_of_a_copy_stream(variant, memory):
    """A buffer of a side stream that the main stream reads. record_stream gives it back when the device is done, so all rounds are alive at
    once; where the side stream waits for the main one before the next round, one buffer is enough."""
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    source, total = torch.arange(ELEMENTS, dtype=torch.float32, device="cuda"), torch.zeros(ELEMENTS, device="cuda")
    torch.cuda.synchronize()
    for _ in memory.steps(3):
        torch.cuda.synchronize()
        with memory.phase("rounds"):
            for _ in range(ROUNDS):
                with torch.cuda.stream(side):
                    buffer = source.clone()
                main.wait_stream(side)
                total.add_(buffer)
                if variant == "record_stream":
                    buffer.record_stream(main)
                elif variant == "wait":
                    side.wait_stream(main)
                del buffer
        torch.cuda.synchronize()
    memory.rise("rounds").active.equals("R*S" if variant == "record_stream" else "S", R=ROUNDS, S=S)
    memory.saving("rounds").active.equals("(R - 1)*S", R=ROUNDS, S=S)
    return total
