#include "harness/virtual/nccl/exchange.h"

#include <algorithm>

#include "harness/virtual/nccl/reduction.h"
#include "harness/virtual/nccl/slices.h"
#include "harness/virtual/nccl/transport.h"

namespace tidemark::nccl {

std::size_t Operation::bytes() const {
  return call.count * size_of(static_cast<ncclDataType_t>(call.type));
}

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
  return operation_.call.function == Function::all_reduce && size() > 2 &&
         operation_.bytes() > 32768;
}

void Exchange::number() {
  ncclComm& comm = *operation_.comm;
  std::lock_guard lock(comm.mutex);
  auto peer = static_cast<std::size_t>(operation_.call.root);
  switch (operation_.call.function) {
    case Function::send:
      number_ = comm.sent[peer]++;
      break;
    case Function::recv:
      number_ = comm.received[peer]++;
      break;
    default:
      number_ = comm.calls++;
  }
}

Header Exchange::header(Kind kind, int target) const {
  Header header;
  header.comm = operation_.comm->id;
  header.kind = kind;
  header.source = operation_.comm->rank;
  header.target = target;
  header.number = number_;
  header.call = operation_.call;
  header.start = start_;
  header.words[0] = operation_.words[0];
  header.words[1] = operation_.words[1];
  return header;
}

void Exchange::post(device::Ns start) {
  start_ = latest_ = start;
  if (operation_.comm->alone) {
    stage_ = Stage::done;
  } else if (operation_.call.function == Function::send) {
    const Operation& op = operation_;
    Header head = header(Kind::message, op.call.root);
    head.known = bytes_known(op.send, op.bytes());
    MessageQueue::of_process().send(
        process(op.call.root), head,
        op.call.moves_data && head.known ? Payload::copy_of(op.send, op.bytes()) : Payload());
    stage_ = Stage::done;
  } else if (operation_.call.function != Function::recv) {
    post_parts();
  }
}

void Exchange::post_parts() {
  if (operation_.device_scalar != nullptr && operation_.call.moves_data) {
    operation_.words[0] =
        to_scalar(operation_.device_scalar, static_cast<ncclDataType_t>(operation_.call.type));
  }
  parts_.resize(static_cast<std::size_t>(size()));
  for (int target = 0; target < size(); ++target) {
    Header head = header(Kind::part, target);
    const Payload slice = slice_for(target, head.known);
    MessageQueue::of_process().send(process(target), head, slice);
  }
  whole_ = {};
}

Payload Exchange::slice_for(int target, bool& known) {
  const Operation& op = operation_;
  Slice slice = op.call.moves_data ? slice_to(target, op, chunked()) : Slice();
  if (slice.size == 0) return {};
  const auto* from = static_cast<const std::byte*>(op.send) + slice.at;
  known = bytes_known(from, slice.size) &&
          (!op.device_scalar ||
           bytes_known(op.device_scalar, size_of(static_cast<ncclDataType_t>(op.call.type))));
  if (!known) return {};
  if (slice.at != 0 || slice.size != op.bytes()) return Payload::copy_of(from, slice.size);
  if (whole_.size == 0) whole_ = Payload::copy_of(from, slice.size);
  return whole_;
}

bool Exchange::advance() {
  if (stage_ == Stage::done) return true;
  if (operation_.call.function == Function::recv) return take_message();
  if (stage_ == Stage::parts) {
    if (!take_parts(Kind::part)) return false;
    compare();
    for (const MessagePtr& part : parts_) latest_ = std::max(latest_, part->header.start);
    if (chunked() && operation_.call.moves_data) {
      send_reduced_chunk();
      stage_ = Stage::chunks;
    } else {
      assemble();
      stage_ = Stage::done;
      return true;
    }
  }
  if (!take_parts(Kind::chunk)) return false;
  copy_chunks();
  stage_ = Stage::done;
  return true;
}

bool Exchange::take_message() {
  const Operation& op = operation_;
  MessagePtr message = MessageQueue::of_process().take(op.comm->id, op.comm->rank, Kind::message,
                                                       op.call.root, number_);
  if (!message) return false;
  const Call& theirs = message->header.call;
  if (theirs.type != op.call.type || theirs.count != op.call.count ||
      theirs.moves_data != op.call.moves_data) {
    std::string text = fmt::format(
        "mismatch on communicator '{}', message {} from rank {} to rank {}: rank {} called {}, "
        "rank {} called {}",
        op.comm->name, number_, op.call.root, op.comm->rank, op.call.root, text_of(theirs),
        op.comm->rank, text_of(op.call));
    if (op.call.root != op.comm->rank) notify(*op.comm, op.call.root, true, text);
    throw Failure(ncclInvalidUsage, text);
  }
  latest_ = std::max(latest_, message->header.start);
  receive(0, op.bytes(), *message);
  stage_ = Stage::done;
  return true;
}

bool Exchange::take_parts(Kind kind) {
  bool all = true;
  for (int source = 0; source < size(); ++source) {
    MessagePtr& part = parts_[static_cast<std::size_t>(source)];
    if (!part)
      part = MessageQueue::of_process().take(operation_.comm->id, operation_.comm->rank, kind,
                                             source, number_);
    all = all && part != nullptr;
  }
  return all;
}

// The same on all ranks: the first rank that differs from the lowest one.
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
  bool at_root = op.comm->rank == op.call.root;
  if ((op.call.function == Function::reduce || op.call.function == Function::gather) && !at_root)
    return;
  if (op.call.reduction != Reduction::none) {
    bool known = true;
    const std::vector<Input> all = inputs(known);
    if (known)
      reduce(op.recv, all, op.call.count, static_cast<ncclDataType_t>(op.call.type),
             op.call.reduction, size());
    mark_bytes(op.recv, op.bytes(), known);
  } else if (op.call.function == Function::broadcast || op.call.function == Function::scatter) {
    receive(0, op.bytes(), *parts_[static_cast<std::size_t>(op.call.root)]);
  } else {
    for (std::size_t r = 0; r < parts_.size(); ++r) receive(r * op.bytes(), op.bytes(), *parts_[r]);
  }
}

std::vector<Input> Exchange::inputs(bool& known) const {
  std::vector<Input> all;
  for (const MessagePtr& part : parts_) {
    all.push_back({part->payload.data.get(), part->header.words[0]});
    known = known && part->header.known;
  }
  return all;
}

void Exchange::receive(std::size_t at, std::size_t bytes, const Message& part) const {
  copy_to(operation_.recv, at, part.payload);
  const bool known = part.header.known && operation_.call.moves_data;
  mark_bytes(static_cast<std::byte*>(operation_.recv) + at, bytes, known);
}

void Exchange::send_reduced_chunk() {
  const Operation& op = operation_;
  auto type = static_cast<ncclDataType_t>(op.call.type);
  bool known = true;
  const std::vector<Input> all = inputs(known);
  Payload reduced;
  if (known) {
    reduced = Payload::allocate(slice_to(op.comm->rank, op, true).size);
    reduce(reduced.data.get(), all, reduced.size / size_of(type), type, op.call.reduction, size());
  }
  for (int target = 0; target < size(); ++target) {
    Header head = header(Kind::chunk, target);
    head.known = known;
    MessageQueue::of_process().send(process(target), head, reduced);
  }
  std::fill(parts_.begin(), parts_.end(), nullptr);
}

void Exchange::copy_chunks() {
  for (std::size_t r = 0; r < parts_.size(); ++r) {
    const Slice chunk = slice_to(static_cast<int>(r), operation_, true);
    receive(chunk.at, chunk.size, *parts_[r]);
  }
}

}  // namespace tidemark::nccl
