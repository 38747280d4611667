// Interface of race detection, for programs and for the operator layer: plain C, looked up by name
// as in device/control.h. The device itself sees streams, events, synchronisations, copies, memsets
// and collectives. Its callers report the rest: which tensors an operator reads and writes, which
// memory the allocator gives to which owner, and what the host reads.
//
// A race: two accesses to the same bytes, one of them a write, that no stream order, event or host
// synchronisation puts one after the other. All threads of the host count as one (what they do to
// each other is for a thread sanitizer); a query that has answered "done" is a synchronisation.
// Reported too: an access to a block after it was freed, and one operator that writes and reads the
// same bytes as two storages, both of which mean that memory was given away too early.
#pragma once

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

enum { TIDEMARK_ACCESS_DIMS = 8 };

/// One tensor of an operator. Device memory only.
struct tidemark_access {
  const void* address;  // of its first element
  const void* storage;  // whose memory it is; null: no storage
  const char* type;     // of its elements, a name that lives for ever
  uint32_t element;     // bytes
  uint32_t dims;
  int32_t device;
  int32_t write;
  int64_t sizes[TIDEMARK_ACCESS_DIMS], strides[TIDEMARK_ACCESS_DIMS];  // in elements
};

/// 1 forgets every access and race before and starts, 0 stops. Off at first, unless
/// TIDEMARK_RACES=1.
void tidemark_races_detect(int on);
int tidemark_races_detected(void);
/// Sets the phase of the following accesses, for reports.
void tidemark_races_phase(const char* name);

/// One operator on this thread; nests, the outermost counts. Its accesses belong to the stream of
/// its device that it used last (an operator that has used none has touched nothing by a kernel);
/// copies and memsets inside are named after it. `name` must live until the end.
void tidemark_races_begin_operator(const char* name);
void tidemark_races_end_operator(const struct tidemark_access* accesses, size_t count);

/// The host reads or writes memory that the device may be using (pinned).
void tidemark_races_host_access(const char* name, const void* address, uint64_t bytes, int write);

/// The caching allocator's events. `stream` is a cudaStream_t.
void tidemark_races_allocated(const void* address, uint64_t bytes, void* stream);
void tidemark_races_freed(const void* address);
void tidemark_races_returned(const void* address, uint64_t bytes);  // a segment, to the device

/// Writes the races found, as a JSON list in the order of discovery: {"first": {"op", "stream"},
/// "second": {..}, "kind", "bytes", "count", "last": [[stream, place], [..]], "explanation"}. An
/// explanation ends with " (N times)" if the count N is more than 1.
/// `last` is the place of the last occurrence, as in tidemark_span (place 0: no operation of a
/// stream). There is one entry for each pair of operators, streams and phases, 100 at most. Streams
/// are numbered in their order of occurrence. Returns the length; writes up to `size` bytes.
size_t tidemark_races_read(char* text, size_t size);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
