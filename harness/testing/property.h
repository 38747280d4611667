// Properties that hold for thousands of random inputs, by RapidCheck; and damaged files. Cases and
// seed are fixed, so that a test is the same everywhere; TIDEMARK_TEST_SEED=7 draws other ones, and
// TIDEMARK_TEST_CASES=10 ten times as many.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace tidemark::testing {

inline int from_environment(const char* name, int otherwise) {
  const char* set = std::getenv(name);
  return set != nullptr ? std::atoi(set) : otherwise;
}

/// Fails the running test with the smallest counterexample; counts the cases for ci/tried.
template <class Property>
void for_all(int cases, Property&& property) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestParams params;
  params.seed = static_cast<std::uint64_t>(from_environment("TIDEMARK_TEST_SEED", 20261121));
  params.maxSuccess = cases * from_environment("TIDEMARK_TEST_CASES", 1);
  const auto result =
      rc::detail::checkTestable(std::forward<Property>(property),
                                rc::detail::TestMetadata{test->name(), test->name()}, params);
  if (result.template is<rc::detail::SuccessResult>()) {
    ::testing::Test::RecordProperty("cases",
                                    result.template get<rc::detail::SuccessResult>().numSuccess);
    return;
  }
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  ADD_FAILURE() << text.str();
}

/// `text` with one to six wounds: bytes changed, cut out, doubled, put in, or the end missing.
inline rc::Gen<std::string> damaged(const std::string& text) {
  using Wound = std::tuple<std::uint8_t, std::uint32_t, std::uint32_t>;
  return rc::gen::map(rc::gen::arbitrary<std::pair<Wound, std::vector<Wound>>>(),
                      [text](std::pair<Wound, std::vector<Wound>> all) {
                        static const std::vector<std::string> kTokens{"null",
                                                                      "1e999",
                                                                      "-1e999",
                                                                      "9223372036854775808",
                                                                      "-9223372036854775809",
                                                                      "1e18",
                                                                      "-1",
                                                                      "[[[[",
                                                                      "{\"\":",
                                                                      "\"",
                                                                      "\\",
                                                                      "\xff",
                                                                      "]",
                                                                      "}",
                                                                      "\n",
                                                                      "nan",
                                                                      ",",
                                                                      "<script>",
                                                                      std::string(1, '\0'),
                                                                      "0.1",
                                                                      "18446744073709551615",
                                                                      "../../x",
                                                                      "=",
                                                                      "1e-999"};
                        auto [first, wounds] = std::move(all);
                        wounds.resize(std::min<std::size_t>(wounds.size(), 5));
                        wounds.push_back(first);
                        std::string out = text;
                        for (const auto& [kind, where, what] : wounds) {
                          const std::size_t at = out.empty() ? 0 : where % (out.size() + 1);
                          const std::size_t some =
                              std::min<std::size_t>(1 + what % 40, out.size() - at);
                          switch (kind % 7) {
                            case 0:
                              if (at < out.size()) out[at] = static_cast<char>(what);
                              break;
                            case 1:
                              out.erase(at, some);
                              break;
                            case 2:
                              out.insert(at, out.substr(at, some));
                              break;
                            case 3:
                              if (kind > 200) out.resize(at);
                              break;
                            default:
                              out.replace(at, kind % 2 ? some : 0, kTokens[what % kTokens.size()]);
                          }
                        }
                        return out;
                      });
}

/// Runs it: it succeeds, or throws an Error of one readable line. Anything else is a failure.
template <class Error, class Body>
bool accepts(Body&& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    const std::string text = error.what();
    RC_ASSERT(!text.empty());
    RC_ASSERT(text.size() < 4000U);
    RC_ASSERT(text.find('\n') == std::string::npos);
    return false;
  }
}

}  // namespace tidemark::testing
