// File of a process's memory record: a page with the figures of each device, then a stream of
// entries. The file is mapped into the process that writes it, so that whatever ends the process,
// every committed entry is there, with the figures of the same moment.
//
// An entry is its tag, then its numbers: LEB128, those marked `s` with their sign in the lowest bit
// (zigzag). A text is its length and its bytes. Strings, frames, stacks and nodes are numbered in
// the order of their entries, from 1; 0 is the empty one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "harness/record/allocator_action.h"

namespace tidemark::recorder {

enum class Tag : std::uint8_t {
  string = 1,  // text
  frame,       // function and file (strings), line
  stack,       // the caller's stack, frame
  node,        // of autograd: name (string); of where it was made: stack, module (string), and node
               // that ran then
  event,       // action (of the allocator, PyTorch's number), device, s address (less that of
          // the entry before in this step), size as requested (of oom: what the device had free),
          // stream, stack, module (string), node, s nanoseconds since the entry before
  block,      // device, size of the block of its last allocation, if not the request rounded up
              // to 512 bytes
  label,      // s address (as of an event), kind and name (strings): the block there from now on
  phase,      // name (string), s nanoseconds: begins
  phase_end,  // name (string), s nanoseconds: the innermost one of that name ends
  gather,     // device, s output, s shard (addresses, likewise), bytes of the shard
  step,       // number of the training step, s nanoseconds since the record began: begins; the
              // address before is 0
  repeats,    // count of steps before, 8 bytes (not LEB128): how often they came again; of the
              // last such entry the moment may say more
  setting,    // of the allocator: name and value (texts)
  skipped,   // first and last step, how many, events of theirs that are not kept, bytes: in so many
             // bytes from here on is what is left of them
  stream,    // handle, name (text)
  source,    // file (text), line, its source (text); of a record in a report's folder
  pool,      // device, s address (as of an event), the two numbers of a private pool: the segment
             // there is one of its
  refused,   // device, of its last event, oom: bytes that the allocator asked of the device, and
             // that the process may have (0: no limit of its own); allocated, active, reserved,
             // outside (as Figures); whether the pool of the request is known, and its two numbers
  use,       // s address (as of an event), a number of BlockUse
  computed,  // s output, s source (addresses, likewise): outside modules an operator allocates the
             // output and reads the source, which may be of a forward; or it writes the
             // output and reads the source, which is of a gradient (the same: overwrites it)
};

/// What a record says of the use of the block at an address.
enum class BlockUse : std::uint8_t {
  followed,   // no block: from here on the record has the uses of all
  read,       // an operator reads it, or may; the first time since the record's boundary before
  collected,  // Python's collector frees it: only cycles of references held it
  in_graph,   // a graph of autograd that the program holds has saved it
};

/// The words of snapshots.
constexpr auto words(BlockUse) {
  return std::array{"followed", "read", "freed by Python's collector", "saved in a graph"};
}

/// Steps, and how many events of theirs are not kept.
struct SkippedCount {
  std::uint64_t first = 0, last = 0, steps = 0, events = 0;
};

constexpr std::uint64_t kMagic = 0x3664726f6365726dULL;  // "mrecord6"
constexpr std::uint64_t kDevices = 64;                   // of one process; more cannot be had
constexpr std::size_t kFrames = 1000;   // of a stack, the innermost: what a snapshot has of it
constexpr std::int64_t kUntilFull = 2;  // events until the file system had no room for more
// Bytes before the first entry: a multiple of every size of a page, since mappings begin after it.
constexpr std::uint64_t kHeader = 64 << 10;

/// Name of a module: none ran, but an operator that made a node of autograd.
constexpr const char* kOutsideModules = "outside modules";

/// The block of a request, unless the allocator leaves a rest with it: its blocks are multiples of
/// 512 bytes.
constexpr std::int64_t rounded(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

/// Bytes of PyTorch's caching allocator on one device, and of what programs have beside it there.
struct Figures {
  std::int64_t allocated, active, reserved, requested;  // now, before `unsettled`
  std::int64_t allocated_peak, active_peak, reserved_peak, requested_peak;  // over the process
  std::int64_t retries, ooms;
  std::int64_t unsettled;  // requested by the last allocation, which is not in the figures yet
  std::int64_t used;       // 1: the device has had an event, or memory outside the allocator
  std::int64_t outside, outside_peak;  // that programs have of the device outside the allocator
  std::int64_t taken_peak;             // the highest of reserved and outside together
  std::int64_t refused, refused_left;  // the last request outside the allocator for which there was
                                       // no room, and what was left; 0: there was none
  std::int64_t limit;  // that the process may have (memory fraction); 0: no limit of its own
};

/// All that changes from entry to entry.
struct Moment {
  std::uint64_t size;                // bytes of entries
  std::uint64_t left_from, left_to;  // bytes that are none while they are written again; else 0, 0
  std::uint64_t repeats;             // of the last entry of that tag, while it counts; else 0
  Figures devices[kDevices];
};

struct Header {
  std::uint64_t magic;
  std::int64_t pid;
  std::int64_t begin_ns;  // of the record's clock; of programs since 1970
  std::atomic<std::int64_t> ended;
  std::atomic<std::int64_t> rank;  // in the process group; -1: not known
  std::int64_t has_events;         // 0: figures alone; kUntilFull
  std::int64_t step;               // of the training, from 1
  char phase[64];                  // the innermost one now, cut; "": none
  std::atomic<std::uint64_t> now;  // which of the moments holds; the other one is being written
  Moment moments[2];
  const Moment& moment() const { return moments[now.load(std::memory_order_acquire) & 1U]; }
};
static_assert(sizeof(Header) <= kHeader);

}  // namespace tidemark::recorder
