#include "harness/cli/boundary.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <typeinfo>

#include "harness/errors.h"
#include "harness/print.h"
#include "harness/record/budget.h"

namespace tidemark {
namespace {

Told fault(std::string_view text) {
  return {"a fault of tidemark: " + one_line(text.substr(0, text.find('\n'))) +
              "; please report it, with the command and its files",
          3};
}

Told no_memory() { return {"the host has no memory left for this command", 3}; }

bool is_of_memory(const std::system_error& error) {
  return error.code() == std::errc::not_enough_memory;
}

/// PyTorch's errors, whose text goes on with a stack trace.
bool is_of_pytorch(const std::exception& error) {
  return std::string_view(typeid(error).name()).find("c10") != std::string_view::npos ||
         std::string_view(typeid(error).name()).find("torch") != std::string_view::npos;
}

}  // namespace

Told told(const std::exception_ptr& thrown, int otherwise) {
  try {
    if (memory_ended() && !overspent()) return no_memory();  // another error may come of it
    std::rethrow_exception(thrown);
  } catch (const UsageError& error) {
    return {error.what(), 2, true};
  } catch (const NothingSelected& error) {
    return {error.what(), 4, true};
  } catch (const Unavailable& error) {
    return {error.what(), error.code, true};
  } catch (const Overspent& error) {
    return {error.what(), 2};
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const std::filesystem::filesystem_error& error) {
    if (is_of_memory(error)) return no_memory();
    const std::string second = error.path2().empty() ? "" : " and " + error.path2().string();
    const std::string first =
        error.path1().empty() ? "the working directory" : error.path1().string();
    return {first + second + ": " + error.code().message(), otherwise};
  } catch (const std::system_error& error) {
    if (is_of_memory(error)) return no_memory();
    return {"the host refuses: " + error.code().message(), 3};
  } catch (const nlohmann::json::exception& error) {
    return fault(error.what());
  } catch (const std::runtime_error& error) {
    if (typeid(error) == typeid(std::overflow_error) || typeid(error) == typeid(std::range_error) ||
        typeid(error) == typeid(std::underflow_error))
      return fault(error.what());
    return {error.what(), otherwise};
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    if (is_of_pytorch(error)) return {std::string(text.substr(0, text.find('\n'))), 3};
    return fault(text);
  } catch (...) {
    return fault("an exception that is none of C++'s");
  }
}

void tell_at_terminate() {
  std::set_terminate([] {
    const std::exception_ptr thrown = std::current_exception();
    // A destructor that meets a value of nlohmann's library without its content has no exception.
    const Told what = thrown           ? told(thrown, 3)
                      : overspent()    ? Told{Overspent().what(), 2}
                      : memory_ended() ? no_memory()
                                       : fault("terminate was called");
    std::fflush(stdout);
    print_error(what.line);
    std::fflush(stderr);
    _exit(what.code);
  });
}

void settle_process() {
  for (int file = 0; file <= 2; ++file)
    if (fcntl(file, F_GETFD) < 0 && open("/dev/null", file == 0 ? O_RDONLY : O_WRONLY) != file)
      _exit(3);
  // A handler, and not SIG_IGN, which the program of exec would have too.
  std::signal(SIGXFSZ, [](int) {});
}

}  // namespace tidemark
