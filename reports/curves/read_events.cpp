// TensorBoard's files of events: frames of a length, its checksum, a message and its checksum
// (tensorflow/core/lib/io/record_writer.h). A message is an Event in the encoding of protobuf
// (tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto).
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "reports/curves/formats.h"

namespace tidemark {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie there");

/// Thrown within a message, named by read_events.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class Number>
Number number(std::string_view bytes, std::size_t at = 0) {
  if (bytes.size() < at + sizeof(Number)) throw Malformed("ends in the middle of a number");
  Number value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// CRC-32C (Castagnoli), masked as TensorFlow does.
std::uint32_t checksum(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
  }
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

std::string_view take(std::string_view& text, std::uint64_t size) {
  if (size > text.size()) throw Malformed("is cut short");
  const auto front = text.substr(0, size);
  text.remove_prefix(size);
  return front;
}

std::uint64_t take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(text, 1)[0]);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  throw Malformed("holds a number of more than 64 bits");
}

struct Field {
  std::uint64_t number = 0, value = 0;  // value: of a varint
  std::string_view bytes;               // of all else
};

Field take_field(std::string_view& text) {
  const std::uint64_t key = take_varint(text);
  Field field{key >> 3, 0, {}};
  switch (key & 7) {
    case 0:
      field.value = take_varint(text);
      break;
    case 1:
      field.bytes = take(text, 8);
      break;
    case 2:
      field.bytes = take(text, take_varint(text));
      break;
    case 5:
      field.bytes = take(text, 4);
      break;
    default:
      throw Malformed("has a field of an unknown type");
  }
  return field;
}

/// Calls `use` with every field of a message.
template <class Use>
void each_field(std::string_view message, Use use) {
  while (!message.empty()) use(take_field(message));
}

/// A scalar, as TensorFlow 2 writes it; none where it is another tensor.
std::optional<double> scalar(std::string_view tensor) {
  std::uint64_t type = 0;
  std::string_view bytes;
  each_field(tensor, [&](const Field& field) {
    if (field.number == 1) type = field.value;
    if (field.number == 4 || field.number == 5 || field.number == 6) bytes = field.bytes;
  });
  if (type == 1 && bytes.size() == sizeof(float)) return number<float>(bytes);
  if (type == 2 && bytes.size() == sizeof(double)) return number<double>(bytes);
  return std::nullopt;
}

void add_event(std::string_view event, Points& points) {
  std::int64_t step = 0;
  std::string_view summary;
  each_field(event, [&](const Field& field) {
    if (field.number == 2) step = static_cast<std::int64_t>(field.value);
    if (field.number == 5) summary = field.bytes;
  });
  each_field(summary, [&](const Field& one) {
    std::string tag;
    std::optional<double> value;
    each_field(one.bytes, [&](const Field& field) {
      if (field.number == 1) tag = field.bytes;
      if (field.number == 2) value = number<float>(field.bytes);
      if (field.number == 8) value = scalar(field.bytes);
    });
    if (value) points.add(tag, step, *value);
  });
}

}  // namespace

bool holds_events(std::string_view text) {
  return text.size() >= 12 && number<std::uint32_t>(text, 8) == checksum(text.substr(0, 8));
}

void read_events(std::string_view text, Points& points) {
  for (int event = 0; !text.empty(); ++event) {
    const std::string place = fmt::format("event {}", event);
    try {
      // A length that agrees with its checksum is right: what is missing was not written yet.
      const bool headed = holds_events(text);
      if (text.size() < 12 || (headed && number<std::uint64_t>(text) > text.size() - 12) ||
          (headed && text.size() - 12 - number<std::uint64_t>(text) < 4))
        return points.note("cut", place + " is cut short and left out");
      const std::string_view head = take(text, 12);
      const std::string_view message = take(text, number<std::uint64_t>(head)),
                             tail = take(text, 4);
      if (!headed || number<std::uint32_t>(tail) != checksum(message))
        throw Malformed("does not agree with its checksum");
      add_event(message, points);
    } catch (const Malformed& error) {
      points.fail(place, error.what());
    }
  }
}

}  // namespace tidemark
