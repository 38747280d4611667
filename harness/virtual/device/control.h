// Interface by which a program controls and reads the virtual device: plain C, so that it can be
// looked up by name (dlsym(RTLD_DEFAULT, "tidemark_device_now")) by programs that also run where no
// virtual device is. Without any call the environment decides: TIDEMARK_GPU, TIDEMARK_CAPACITY,
// TIDEMARK_PLACEMENT, TIDEMARK_SCHEDULE, TIDEMARK_MODE (math: bytes move), TIDEMARK_KNOWN_LIMIT,
// TIDEMARK_UNKNOWN, and TIDEMARK_DEVICES (how many the process sees; 1).
#pragma once

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/// "instant", "calibrated", "lagging", "random". 0, or -1 when there is no such schedule.
/// Synchronises the device first.
int tidemark_device_set_schedule(const char* name);
/// Sets the seed of the schedule random (TIDEMARK_SEED, else 0); reset_clock starts its sequence
/// again.
void tidemark_device_set_seed(uint64_t seed);
/// A profile by name ("h100-80g") or a path of a JSON file. 0, or -1 (tidemark_device_error says
/// why). Only while no memory is allocated.
int tidemark_device_set_profile(const char* name);
/// Bytes of each device, all of which programs can allocate; 0 = the profile's, less what CUDA's
/// context and NCCL hold. 0, or -1 when more than that is allocated now.
int tidemark_device_set_capacity(uint64_t bytes);
/// Bytes of each device that programs cannot allocate, in place of context and NCCL
/// (TIDEMARK_RESERVE). 0, or -1 when nothing would be left.
int tidemark_device_set_reserve(uint64_t bytes);
/// A communicator of NCCL is made on a device: the first one takes the profile's NCCL bytes.
void tidemark_device_nccl_used(int device);
/// Bytes of a device, as cudaMemGetInfo says; 0: there is no such device.
uint64_t tidemark_device_memory_total(int device);
/// How often programs have taken memory of any device, given it back, or asked for more than there
/// was. Takes no lock.
uint64_t tidemark_device_memory_changes(void);
/// A request for device memory that was refused: the bytes, and what the device had left. 0, 0:
/// none was.
struct tidemark_refused {
  uint64_t wanted, left;
};
/// Calls `change` with each change of the memory that programs have of a device since this was last
/// called, in bytes, in order: what was taken, and (< 0) given back, with its address (0: memory
/// that is mapped elsewhere). `refused`: the last request since then that the device had no room
/// for.
void tidemark_device_read_memory(int device,
                                 void (*change)(void* data, int64_t bytes, uint64_t address),
                                 void* data, struct tidemark_refused* refused);
/// The current device's next allocation begins so many bytes above its lowest address. The first
/// call replaces the rule of TIDEMARK_PLACEMENT; without another one, an allocation then takes the
/// highest range. Returns the address, or 0: memory was allocated before the first call, or no
/// multiple of 2 MiB.
uint64_t tidemark_device_place_next(uint64_t offset);
/// From now on an event that is recorded on this stream (a cudaStream_t) is done when the host
/// waits for it, or when it is one of the first `count` of them that release_records was told; for
/// replays of recordings.
void tidemark_device_hold_records(void* stream);
void tidemark_device_release_records(void* stream, uint64_t count);
/// True if copies, memsets and collectives move bytes (mode math); else they only cost time.
/// While they move, a kernel launch on a thread that has not suspended data fails with
/// cudaErrorNotSupported: its results would not exist.
/// 2: they move as far as they are known (mode known); a launch makes what it points to unknown.
void tidemark_device_set_data(int on);
/// Mode known: bytes of device memory that are known, or not (any more); whether all of these are;
/// how many are in all; a copy of what is known of a range, with its state.
void tidemark_device_mark_known(const void* address, uint64_t bytes, int known);
int tidemark_device_is_known(const void* address, uint64_t bytes);
uint64_t tidemark_device_known_bytes(void);
void tidemark_device_copy_known(void* to, const void* from, uint64_t bytes);
/// A floating-point value of more bytes is not kept (TIDEMARK_KNOWN_LIMIT, 256 KiB).
uint64_t tidemark_device_known_limit(void);
void tidemark_device_set_known_limit(uint64_t bytes);
/// An allocator has given this range away: it is unknown, and a launch that points into it makes
/// all of it unknown. 0 bytes: it has been given back.
void tidemark_device_new_block(const void* address, uint64_t bytes);
/// Mode known: of the arguments of a kernel (a CUfunction, in order; 1: it at most reads what the
/// argument points to). All others are written.
void tidemark_device_kernel_reads(void* function, const unsigned char* only, size_t arguments);
/// Waits until the collectives in the stream (a cudaStream_t), and those of this thread, have
/// brought what they bring. Comes before an operator whose data is read outside the device's calls.
void tidemark_device_await_stream(void* stream);
/// Per-thread, counted: while > 0 no bytes move on this thread, whatever set_data said.
void tidemark_device_suspend_data(int delta);
/// Per thread: while on, a copy of 4 or 8 bytes to the host that moves no data arrives as this
/// integer (a count that host code waits for, known from elsewhere). 2: a copy of any size, as this
/// integer in its first bytes and zeros.
void tidemark_device_answer_reads(int on, int64_t value);
/// Per thread: the product of two sparse matrices that is to come has so many entries, which are
/// sums of so many products of two entries. < 0: not known.
void tidemark_device_sparse_product(int64_t entries, int64_t products);
/// Per thread, counted: while > 0, a copy to the host that moves no data is accepted and leaves
/// 0xFF bytes ("no value"). Otherwise it fails with cudaErrorNotSupported, unless the environment
/// says TIDEMARK_UNKNOWN=nan.
void tidemark_device_accept_unknown(int delta);
int tidemark_device_accepts_unknown(void);
/// True if a launch of this thread was refused (1) since it last asked, here or with
/// cudaGetLastError, which then has nothing more to say about it.
int tidemark_device_take_refusal(void);
/// Words of an error by which this process refuses what the platform cannot answer; and whether the
/// text of an error (1) has words that were noted so, here or by the platform itself.
void tidemark_device_note_refusal(const char* words);
int tidemark_device_is_refusal(const char* error);
/// The program has ended, and the process is about to (watchdog.h).
void tidemark_device_program_ends(void);
/// 1 if a collective has used memory of this block and no watchdog of PyTorch has seen its end.
int tidemark_device_waits_for_watchdog(const void* address, size_t bytes);
/// CUDA graphs: whether any capture is under way, whether this stream (a cudaStream_t) is captured.
int tidemark_device_captures_under_way(void);
int tidemark_device_is_capturing(void* stream);
/// Adds an effect on data to the calling thread's operator (tidemark_device_begin_operator) that a
/// graph captured: launches of the graph call `run` (0 on success). `destroy` frees `data` in the
/// end. Returns 1, or 0 where nothing was captured (and `data` is still the caller's).
int tidemark_device_capture_effect(int (*run)(void*), void* data, void (*destroy)(void*));
/// Adds the effect on data of a kernel that polls until none of these `count` words of 4 bytes in
/// device memory is 0: `run` (0 on success) is called then, on any thread. Later work in the stream
/// (a cudaStream_t) waits for that, and other streams do not. `destroy` frees `data` in the end.
/// The time of the kernel stays that of its launch. After one and a half times TIDEMARK_TIMEOUT the
/// context is broken with cudaErrorLaunchTimeout, and a line on stderr names the kernel.
void tidemark_device_run_when_signalled(void* stream, const uint32_t* words, size_t count,
                                        const char* name, int (*run)(void*), void* data,
                                        void (*destroy)(void*));
/// The operator layer is there and computes the numbers of mode math (1), or not (0). It decides
/// only what the refusal of a kernel launch says.
void tidemark_device_numbers_computed(int on);
/// Host-side cost of one launch (ns), for the run-ahead sweep; < 0 = the profile's.
void tidemark_device_set_launch_cost(int64_t ns);
/// Back to time 0 with every stream idle, kernel counts zero and the trace empty. Memory and
/// handles stay.
void tidemark_device_reset_clock(void);

const char* tidemark_device_error(void);
int64_t tidemark_device_now(
    void);  // host clock, ns; the end of all work is only reached by synchronising
uint64_t tidemark_device_launches(void);  // kernels launched since reset_clock
uint64_t tidemark_device_synchronisations(
    void);  // host synchronisations since reset_clock (stream, event, device)
/// The profile and its figures, and launches per kernel name, as one JSON text. Returns its length;
/// writes up to `size`.
size_t tidemark_device_describe(char* text, size_t size);

/// Brackets one operator on this thread, so that its kernels cost what its tensors' bytes say:
/// between begin and end a kernel costs its latency alone; `bytes` (read + written) is charged once
/// at the end, to the stream of the operator's last kernel, unless cuBLAS or a collective has
/// charged real work inside. Nests; the outermost counts.
void tidemark_device_begin_operator(const char* name);
void tidemark_device_end_operator(uint64_t bytes);
/// Number of operations (kernels, copies, memsets, collectives) that this thread has put into
/// streams since the outermost bracket began.
uint64_t tidemark_device_operations_inside(void);

/// A record of everything enqueued, and of waits: 1 starts (and empties), 0 stops.
void tidemark_device_trace(int on);
/// The record keeps at most `most` operations: one more empties it. 0: all.
void tidemark_device_trace_at_most(size_t most);
/// Number of entries that this bound has cost since the record was started.
uint64_t tidemark_device_trace_left_out(void);
/// Its entries, in order of enqueueing. The strings live until the trace is emptied or goes on.
enum {
  TIDEMARK_SPAN_OP = 0,
  TIDEMARK_SPAN_COLLECTIVE = 1,
  TIDEMARK_SPAN_COPY = 2,
  TIDEMARK_SPAN_WAIT = 3
};
#define TIDEMARK_HOST_LANE (~(uint32_t)0)
struct tidemark_span {
  const char* op;    // the operator it belongs to, or ""
  const char* name;  // the kernel's, as the library has it
  uint32_t stream;   // as in traces; TIDEMARK_HOST_LANE: the host waited
  int32_t kind;
  int64_t enqueued, begin, end;
  uint64_t place;  // among the operations of its stream, from 1; 0: a wait
};
/// Returns the number of entries; writes up to `size` of them.
size_t tidemark_device_spans(struct tidemark_span* spans, size_t size);
/// Writes the name of a stream (a cudaStream_t, or its number in a trace): "default stream",
/// "stream 1", numbered in the order of first use since reset_clock. Returns its length; writes up
/// to `size` bytes.
size_t tidemark_device_stream_name(void* stream, char* text, size_t size);
size_t tidemark_device_lane_name(uint32_t stream, char* text, size_t size);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
