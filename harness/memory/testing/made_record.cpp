#include "harness/memory/testing/made_record.h"

#include <cstring>
#include <memory>

namespace tidemark {

using recorder::Tag;

MadeRecord::MadeRecord() { step(0); }

std::uint64_t MadeRecord::string(const std::string& text) {
  if (text.empty()) return 0;
  const auto [known, fresh] = strings_.try_emplace(text, strings_.size() + 1);
  if (fresh) tag(Tag::string), put_text(text);
  return known->second;
}

std::uint64_t MadeRecord::frame(const std::string& op) {
  if (op.empty()) return 0;
  const std::uint64_t function = string(op), file = string("operator");
  const auto [known, fresh] = stacks_.try_emplace(op, stacks_.size() + 1);
  if (fresh) {
    tag(Tag::frame), put(function), put(file), put(0);
    tag(Tag::stack), put(0), put(known->second);
  }
  return known->second;
}

void MadeRecord::step(std::int64_t number) {
  tag(Tag::step), put(static_cast<std::uint64_t>(number)), put_signed(time_);
  address_ = 0;
}

void MadeRecord::phase(const std::string& name, Ns time) {
  const std::uint64_t text = string(name);
  tag(Tag::phase), put(text), passed(time);
}

void MadeRecord::phase_end(const std::string& name, Ns time) {
  const std::uint64_t text = string(name);
  tag(Tag::phase_end), put(text), passed(time);
}

void MadeRecord::stream(std::int64_t handle, const std::string& name) {
  tag(Tag::stream), put(static_cast<std::uint64_t>(handle)), put_text(name);
}

void MadeRecord::event(AllocatorAction action, std::int64_t address, Bytes size, Ns time,
                       std::int64_t stream, const std::string& op, const std::string& module) {
  const std::uint64_t stack = frame(op), in = string(module);
  tag(Tag::event), put(static_cast<std::uint64_t>(action)), put(0), to(address);
  put(static_cast<std::uint64_t>(size)), put(static_cast<std::uint64_t>(stream));
  put(stack), put(in), put(0), passed(time);
}

void MadeRecord::label(std::int64_t address, MemoryKind kind, const std::string& name) {
  const std::uint64_t word = string(name_of(kind)), text = string(name);
  tag(Tag::label), to(address), put(word), put(text);
}

std::string MadeRecord::bytes() const {
  std::string header(recorder::kHeader, '\0');
  const auto of = std::make_unique<recorder::Header>();
  of->magic = recorder::kMagic;
  of->pid = 1;
  of->rank = -1;
  of->has_events = 1;
  of->moments[0].size = out_.size();
  std::memcpy(header.data(), static_cast<const void*>(of.get()), sizeof *of);
  return header + out_;
}

}  // namespace tidemark
