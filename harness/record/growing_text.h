// A text that is handed on as it grows, and that nothing holds as a whole.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tidemark {

using Put = std::function<void(std::string_view part)>;
/// Makes a text, and calls `Put` with each part of it, in their order.
using TextMaker = std::function<void(const Put&)>;

/// Collects what is added into parts of about 64 KiB. The last one goes at `finish`.
class GrowingText {
 public:
  explicit GrowingText(const Put& put) : put_(put) {}
  GrowingText& operator+=(std::string_view text) {
    part_ += text;
    if (part_.size() >= kPart) finish();
    return *this;
  }
  GrowingText& operator+=(char c) { return *this += std::string_view(&c, 1); }
  void finish() {
    put_(part_);
    size_ += part_.size();
    part_.clear();
  }
  std::size_t size() const { return size_ + part_.size(); }

 private:
  static constexpr std::size_t kPart = 1 << 16;
  const Put& put_;
  std::string part_;
  std::size_t size_ = 0;
};

/// The whole text, for what needs it so.
inline std::string whole(const TextMaker& make) {
  std::string out;
  make([&](std::string_view part) { out += part; });
  return out;
}

}  // namespace tidemark
