// Labels of accesses in a report: operator, phase, element type and shape; each distinct one is
// kept once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::race {

struct Shape {
  const char* type = nullptr;  // of the elements; null: bytes only
  const std::int64_t* sizes = nullptr;
  std::size_t dims = 0;
};

class Labels {
 public:
  Labels() { clear(); }
  void set_phase(std::string_view name) { phase_ = intern(name); }
  std::uint32_t phase() const { return phase_; }
  std::uint32_t add(std::string_view op, const Shape& shape);
  void clear();

  const std::string& op(std::uint32_t label) const { return words_[labels_[label]->op]; }
  const std::string& phase_of(std::uint32_t label) const { return words_[labels_[label]->phase]; }
  const std::string& word(std::uint32_t id) const { return words_[id]; }
  /// "float32 [64, 48]", or empty.
  std::string shape(std::uint32_t label) const;

 private:
  struct Label {
    std::uint32_t op, phase, type;
    std::vector<std::int64_t> sizes;
    auto operator<=>(const Label&) const = default;
  };
  std::uint32_t intern(std::string_view word);

  std::vector<std::string> words_;
  std::map<std::string, std::uint32_t, std::less<>> word_ids_;
  std::map<Label, std::uint32_t> label_ids_;
  std::vector<const Label*> labels_;  // by id
  std::uint32_t phase_ = 0;
};

}  // namespace tidemark::race
