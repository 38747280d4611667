#include <utility>

#include "harness/record/json.h"
#include "harness/record/json_sink.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string line_of(const Json& value) {
  return whole([&](const Put& put) {
    GrowingText out(put);
    JsonLine(out).put_all(value);
    out.finish();
  });
}

TextMaker json_text(PutJson value) {
  return [value = std::move(value)](const Put& put) {
    GrowingText out(put);
    JsonLayout layout(out);
    value(layout);
    out += '\n';
    out.finish();
  };
}

std::string json_text(const Json& value) {
  return whole(json_text([&](JsonSink& sink) { sink.put_all(value); }));
}

std::string json_quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace tidemark
