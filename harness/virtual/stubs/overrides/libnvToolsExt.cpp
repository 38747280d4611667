// Ranges and marks cost nothing without a profiler. (From CUDA 12.4 on PyTorch has NVTX as
// headers.)
STUB(void, nvtxMarkA)(const char*) {}
STUB(int, nvtxRangePushA)(const char*) { return 0; }
STUB(int, nvtxRangePop)() { return 0; }
STUB(uint64_t, nvtxRangeStartA)(const char*) { return 0; }
STUB(void, nvtxRangeEnd)(uint64_t) {}
