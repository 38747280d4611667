// Records that tests make up, entry by entry (harness/memory/format/format.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "harness/memory/format/entries.h"
#include "harness/memory/format/format.h"
#include "harness/record/memory_history.h"
#include "harness/record/memory_kind.h"
#include "harness/record/words.h"

namespace tidemark {

class MadeRecord {
 public:
  MadeRecord();
  void step(std::int64_t number);
  void phase(const std::string& name, Ns time);
  void phase_end(const std::string& name, Ns time);
  void stream(std::int64_t handle, const std::string& name);
  /// Of device 0; an allocation comes from the operator `op`.
  void event(AllocatorAction action, std::int64_t address, Bytes size, Ns time,
             std::int64_t stream = 0, const std::string& op = "", const std::string& module = "");
  void label(std::int64_t address, MemoryKind kind, const std::string& name = "");
  /// The whole record.
  std::string bytes() const;

 private:
  void put(std::uint64_t value) { recorder::put(out_, value); }
  void put_signed(std::int64_t value) { recorder::put_signed(out_, value); }
  void put_text(std::string_view text) { recorder::put_text(out_, text); }
  void tag(recorder::Tag tag) { out_ += static_cast<char>(tag); }
  std::uint64_t string(const std::string& text);
  std::uint64_t frame(const std::string& op);
  void passed(Ns time) { put_signed(time - time_), time_ = time; }
  void to(std::int64_t address) { put_signed(address - address_), address_ = address; }

  std::string out_;
  std::map<std::string, std::uint64_t> strings_, stacks_;
  Ns time_ = 0;
  std::int64_t address_ = 0;
};

}  // namespace tidemark
