// The constants of a GPU profile, measured on the present device. They are those of the virtual
// device's cost model (harness/virtual/README.md), and each is measured by its definition there:
//
//   an operation takes latency + work / rate. Two sizes of it give the rate,
//     rate = (work2 - work1) / (time2 - time1),
//   whatever the latency is; the smallest one gives the latency.
//
// `time` is by CUDA events, of one operation in a train that the device works off without ever
// waiting for the host (held.h). Costs of the host are on the platform's host clock: the steady
// clock, or the virtual one. Nothing needs more than a quarter of the free memory, and all of it
// takes some seconds, `deadline` at most but for the measurement that is under way.
#pragma once

#include <vector>

#include "harness/measure/rates/spread.h"

namespace tidemark::rates {

/// dense_tflops: matrix products of two sizes by ATen, random numbers in them; a side as long as
/// takes 20 ms at most, up to 8192, and half of it. f32 with TF32 off, tf32 with it on. In bursts:
/// a GPU that lowers its clock in an hour of training is slower then.
std::vector<Rate> dense_rates(const Deadline& deadline);
/// memory.gbps: c = a + b in f32 by ATen, read + written; two sizes far beyond the L2.
/// host.kernel_latency_ns: of operators of one element, end to end.
std::vector<Rate> memory_rates(const Deadline& deadline);
/// host.*_ns: operators of one kernel enqueued; queries of an event that is done; synchronising an
/// idle stream; cudaMalloc and cudaFree of PyTorch's segments (20 MiB), the latter less the
/// synchronisation that it implies.
std::vector<Rate> host_rates(const Deadline& deadline);
/// links.pcie_*: copies from and to pinned memory in turn: their mean, for the profile has one.
std::vector<Rate> pcie_rates(const Deadline& deadline);
/// links.nvlink_*: an NCCL all-gather and all-reduce in turn among all GPUs that this process sees,
/// by the ring model of harness/virtual/nccl/cost.h. network_* is not measured: one machine.
std::vector<Rate> link_rates(const Deadline& deadline);

/// All of these, on device 0, in this order; leaves the allocator's cache empty. `beginning` hears
/// what comes next.
std::vector<Rate> measure_rates(double seconds,
                                const std::function<void(const char*)>& beginning = {});

/// Bytes that one tensor of a measurement may have: a power of two, at most `most` and a sixteenth
/// of what is free.
Bytes share_of_free(Bytes most);

}  // namespace tidemark::rates
