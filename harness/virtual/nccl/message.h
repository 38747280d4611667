// A message between ranks: a fixed header and, where data moves, a payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "harness/virtual/nccl/call.h"

namespace tidemark::nccl {

/// A communicator's name among all processes: the unique id's hash, or the parent's and a number
/// for its children.
struct CommId {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const CommId&) const = default;
};

/// A different id for every (parent, number), the same on all ranks.
CommId child_of(const CommId& parent, std::uint64_t number, std::uint64_t color);
CommId hash_of(const void* bytes, std::size_t size);

enum class Kind : std::uint32_t {
  hello,     // "rank `source` of call.count ranks is in process `process`, at place words[0]"; the
             // payload is its address and a text about its clock
  part,      // a rank's part in call `number` of the communicator
  chunk,     // the second half of an all-reduce: a reduced chunk
  message,   // the `number`-th send from `source` to `target`
  notice,    // the sender has left the communicator, or met an error; the payload is a text
  greeting,  // a hello on its way to the creator of the id
};

/// The version of this library, and of its messages, in characters; zeros behind them.
using Version = std::array<char, 16>;
extern const Version this_version;

struct Header {
  Version version = this_version;  // here and in this length in every version, as is `comm`
  CommId comm;
  Kind kind = Kind::part;
  std::int32_t source = 0, target = 0;  // ranks of the communicator
  std::int32_t process = 0;             // the sender's number on the receiver's network (hello)
  std::uint64_t number = 0;
  Call call;
  std::int64_t start = -1;  // ns; when the sender's stream is ready. -1: takes no time there
  std::int64_t words[2] = {
      0, 0};  // split: color and key; premul-sum: the scalar's bits and whether it is a double
  std::uint64_t bytes = 0;  // of the payload; 0 also where its bytes have no values (mode known)

  static constexpr std::size_t stable_size = sizeof(Version) + sizeof(CommId);
};

/// Shared, so that one copy of a buffer serves all receivers. Never touched once sent.
struct Payload {
  std::shared_ptr<std::byte[]> data;
  std::size_t size = 0;

  static Payload allocate(std::size_t size);
  static Payload copy_of(const void* source, std::size_t size);
};

struct Message {
  Header header;
  Payload payload;
  int contradicted = -1;  // another process that claims to be the same rank (hello)
};
using MessagePtr = std::shared_ptr<Message>;

}  // namespace tidemark::nccl
