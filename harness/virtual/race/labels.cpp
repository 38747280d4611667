#include "harness/virtual/race/labels.h"

namespace tidemark::race {
void Labels::clear() {
  words_.clear();
  labels_.clear();
  word_ids_.clear();
  label_ids_.clear();
  phase_ = intern("");
}

std::uint32_t Labels::intern(std::string_view word) {
  if (const auto id = word_ids_.find(word); id != word_ids_.end()) return id->second;
  words_.emplace_back(word);
  return word_ids_[words_.back()] = static_cast<std::uint32_t>(words_.size() - 1);
}

std::uint32_t Labels::add(std::string_view op, const Shape& shape) {
  Label label{intern(op),
              phase_,
              intern(shape.type ? shape.type : ""),
              {shape.sizes, shape.sizes + shape.dims}};
  const auto [at, is_new] =
      label_ids_.emplace(std::move(label), static_cast<std::uint32_t>(labels_.size()));
  if (is_new) labels_.push_back(&at->first);
  return at->second;
}

std::string Labels::shape(std::uint32_t label) const {
  const Label& l = *labels_[label];
  if (words_[l.type].empty()) return "";
  std::string text = words_[l.type] + " [";
  for (std::size_t i = 0; i < l.sizes.size(); ++i)
    text += (i ? ", " : "") + std::to_string(l.sizes[i]);
  return text + "]";
}

}  // namespace tidemark::race
