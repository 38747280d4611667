#include "harness/virtual/nccl/exchange.h"

#include <algorithm>

#include "harness/virtual/nccl/reduction.h"
#include "harness/virtual/nccl/slices.h"
#include "harness/virtual/nccl/transport.h"

namespace tidemark::nccl {

std::size_t Operation::bytes() const { return call.count * size_of(call.type); }

bool Operation::takes_time() const {
  if (call.function == Function::split || call.function == Function::shrink) return false;
  return !is_collective(call.function) || call.count > 0;
}

bool Operation::stays_here() const {
  return is_collective(call.function) ? comm->size == 1 : call.root == comm->rank;
}

// From here on a large all-reduce costs less in two halves: everyone reduces a chunk of its own,
// then hands it round.
bool Exchange::chunked() const {
  const Call& call = operation_.call;
  return call.function == Function::all_reduce && call.moves_data && size() > 2 &&
         operation_.bytes() > 32768;
}

void Exchange::number() {
  ncclComm& comm = *operation_.comm;
  std::lock_guard lock(comm.mutex);
  const Call& call = operation_.call;
  const auto peer = static_cast<std::size_t>(call.root);
  std::uint64_t& next = call.function == Function::send   ? comm.sent[peer]
                        : call.function == Function::recv ? comm.received[peer]
                                                          : comm.calls;
  number_ = next++;
}

void Exchange::post() {
  const Call& call = operation_.call;
  parts_.resize(static_cast<std::size_t>(size()));
  if (operation_.comm->alone) {
    stage_ = Stage::done;
    return;
  }
  if (operation_.device_scalar != nullptr && call.moves_data)
    operation_.words[0] = to_scalar(operation_.device_scalar, call.type);
  if (call.function == Function::send) {
    send(Kind::message, call.root, slice_for(call.root));
    stage_ = Stage::done;
  } else if (call.function != Function::recv) {
    for (int target = 0; target < size(); ++target) send(Kind::part, target, slice_for(target));
  }
  whole_ = {};
}

// Empty where nothing is sent, or where the bytes have no values.
Payload Exchange::slice_for(int target) {
  const Operation& op = operation_;
  const Slice slice = op.call.moves_data ? slice_to(target, op, chunked()) : Slice();
  const auto* from = static_cast<const std::byte*>(op.send) + slice.at;
  if (slice.size == 0 || !bytes_known(from, slice.size) ||
      (op.device_scalar && !bytes_known(op.device_scalar, size_of(op.call.type))))
    return {};
  if (slice.at != 0 || slice.size != op.bytes()) return Payload::copy_of(from, slice.size);
  if (whole_.size == 0) whole_ = Payload::copy_of(from, slice.size);
  return whole_;
}

void Exchange::send(Kind kind, int target, const Payload& payload) const {
  const Operation& op = operation_;
  const Header header{.comm = op.comm->id,
                      .kind = kind,
                      .source = op.comm->rank,
                      .target = target,
                      .number = number_,
                      .call = op.call,
                      .start = start_,
                      .words = {op.words[0], op.words[1]}};
  MessageQueue::of_process().send(process(target), header, payload);
}

bool Exchange::advance() {
  if (stage_ == Stage::done) return true;
  if (!take_parts()) return false;
  if (stage_ == Stage::chunks) {
    copy_chunks();
  } else {
    if (operation_.call.function == Function::recv)
      compare_message();
    else
      compare();
    for (const MessagePtr& part : parts_) {
      if (part) latest_ = std::max(latest_, part->header.start);
    }
    if (chunked()) {
      send_reduced_chunk();
      stage_ = Stage::chunks;
      return advance();
    }
    assemble();
  }
  stage_ = Stage::done;
  return true;
}

Kind Exchange::awaited() const {
  if (operation_.call.function == Function::recv) return Kind::message;
  return stage_ == Stage::chunks ? Kind::chunk : Kind::part;
}

bool Exchange::awaits(int source) const {
  return operation_.call.function != Function::recv || source == operation_.call.root;
}

bool Exchange::take_parts() {
  bool all = true;
  for (int source = 0; source < size(); ++source) {
    MessagePtr& part = parts_[static_cast<std::size_t>(source)];
    if (part || !awaits(source)) continue;
    part = MessageQueue::of_process().take(operation_.comm->id, operation_.comm->rank, awaited(),
                                           source, number_);
    all = all && part != nullptr;
  }
  return all;
}

void Exchange::compare_message() const {
  const Operation& op = operation_;
  const Call& theirs = parts_[static_cast<std::size_t>(op.call.root)]->header.call;
  if (theirs.type == op.call.type && theirs.count == op.call.count &&
      theirs.moves_data == op.call.moves_data)
    return;
  const std::string text = fmt::format(
      "mismatch on communicator '{}', message {} from rank {} to rank {}: rank {} called {}, "
      "rank {} called {}",
      op.comm->name, number_, op.call.root, op.comm->rank, op.call.root, text_of(theirs),
      op.comm->rank, text_of(op.call));
  if (op.call.root != op.comm->rank) notify(*op.comm, op.call.root, true, text);
  throw Failure(ncclInvalidUsage, text);
}

// All ranks name the same one: the first rank that differs from the lowest.
void Exchange::compare() const {
  const Message* first = nullptr;
  for (const MessagePtr& part : parts_) {
    if (!part) continue;
    if (first == nullptr) first = part.get();
    if (part->header.call == first->header.call) continue;
    fail(ncclInvalidUsage,
         "mismatch on communicator '{}' of {} ranks, call {}: rank {} called {}, rank {} called {}",
         operation_.comm->name, size(), number_, first->header.source, text_of(first->header.call),
         part->header.source, text_of(part->header.call));
  }
}

void Exchange::assemble() {
  const Operation& op = operation_;
  if (op.call.count == 0) return;
  if (!op.call.moves_data) return mark_bytes(op.recv, parts_of(op).received * op.bytes(), false);
  if (parts_of(op).received == 0) return;
  const Function function = op.call.function;
  if (op.call.reduction != Reduction::none) {
    mark_bytes(op.recv, op.bytes(), reduce_parts(op.recv, op.bytes()));
  } else if (function == Function::broadcast || function == Function::scatter ||
             function == Function::recv) {
    receive(0, op.bytes(), *parts_[static_cast<std::size_t>(op.call.root)]);
  } else {
    for (std::size_t r = 0; r < parts_.size(); ++r) receive(r * op.bytes(), op.bytes(), *parts_[r]);
  }
}

// Into `to`, unless a part has no values.
bool Exchange::reduce_parts(void* to, std::size_t bytes) const {
  const Call& call = operation_.call;
  std::vector<Input> inputs;
  for (const MessagePtr& part : parts_) {
    if (part->payload.size != bytes) return false;
    inputs.push_back({part->payload.data.get(), part->header.words[0]});
  }
  reduce(to, inputs, bytes / size_of(call.type), call.type, call.reduction, size());
  return true;
}

void Exchange::receive(std::size_t at, std::size_t bytes, const Message& part) const {
  copy_to(operation_.recv, at, part.payload);
  mark_bytes(static_cast<std::byte*>(operation_.recv) + at, bytes, part.payload.size == bytes);
}

void Exchange::send_reduced_chunk() {
  const Operation& op = operation_;
  Payload reduced = Payload::allocate(slice_to(op.comm->rank, op, true).size);
  if (!reduce_parts(reduced.data.get(), reduced.size)) reduced = {};
  for (int target = 0; target < size(); ++target) send(Kind::chunk, target, reduced);
  std::fill(parts_.begin(), parts_.end(), nullptr);
}

void Exchange::copy_chunks() {
  for (std::size_t r = 0; r < parts_.size(); ++r) {
    const Slice chunk = slice_to(static_cast<int>(r), operation_, true);
    receive(chunk.at, chunk.size, *parts_[r]);
  }
}

}  // namespace tidemark::nccl
