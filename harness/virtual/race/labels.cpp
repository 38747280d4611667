#include "harness/virtual/race/labels.h"

namespace tidemark::race {
namespace {

template <class T>
void append(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void Labels::clear() {
  words_.clear();
  labels_.clear();
  word_ids_.clear();
  label_ids_.clear();
  phase_ = intern("");
}

std::uint32_t Labels::intern(std::string_view word) {
  if (const auto found = word_ids_.find(word); found != word_ids_.end()) return found->second;
  words_.emplace_back(word);
  return word_ids_[words_.back()] = static_cast<std::uint32_t>(words_.size() - 1);
}

std::uint32_t Labels::add(std::string_view op, const Shape& shape) {
  const std::uint32_t op_id = intern(op), type = intern(shape.type ? shape.type : "");
  key_.clear();
  append(key_, op_id);
  append(key_, phase_);
  append(key_, type);
  if (shape.dims > 0)
    key_.append(reinterpret_cast<const char*>(shape.sizes), shape.dims * sizeof(std::int64_t));
  if (const auto found = label_ids_.find(key_); found != label_ids_.end()) return found->second;
  labels_.push_back({op_id, phase_, type, {shape.sizes, shape.sizes + shape.dims}});
  return label_ids_[key_] = static_cast<std::uint32_t>(labels_.size() - 1);
}

std::string Labels::shape(std::uint32_t label) const {
  const Label& l = labels_[label];
  if (words_[l.type].empty()) return "";
  std::string text = words_[l.type] + " [";
  for (std::size_t i = 0; i < l.sizes.size(); ++i)
    text += (i ? ", " : "") + std::to_string(l.sizes[i]);
  return text + "]";
}

}  // namespace tidemark::race
