// SPDX-License-Identifier: MIT
#pragma once

// MPI's C functions as C++ wants them: codes become exceptions, element types become datatypes.

#include <mpi.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <swiglu/comm/communicator.hpp>

namespace swiglu {

/// An MPI call has failed. MPI says little about what may be done afterwards; here it is the end of the communicator.
class mpi_error : public communicator_error {
 public:
  mpi_error(const std::string& what, int code) : communicator_error(what), code_(code) {}

  int code() const noexcept { return code_; }

 private:
  int code_;
};

namespace comm_detail {

inline void mpi(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw mpi_error(
      std::string("swiglu: ") + function + ": " + std::string(text.data(), static_cast<std::size_t>(length)), code);
}

template <class T>
concept mpi_element =
    (std::floating_point<T> || std::integral<T>)&&!std::same_as<T, bool> && std::same_as<T, std::remove_cv_t<T>> &&
    sizeof(T) <= 16;

template <mpi_element T>
MPI_Datatype mpi_type() noexcept {
  if constexpr (std::same_as<T, float>) return MPI_FLOAT;
  if constexpr (std::same_as<T, double>) return MPI_DOUBLE;
  if constexpr (std::same_as<T, long double>) return MPI_LONG_DOUBLE;
  if constexpr (std::integral<T> && std::is_signed_v<T>)
    return sizeof(T) == 1 ? MPI_INT8_T : sizeof(T) == 2 ? MPI_INT16_T : sizeof(T) == 4 ? MPI_INT32_T : MPI_INT64_T;
  if constexpr (std::integral<T> && !std::is_signed_v<T>)
    return sizeof(T) == 1 ? MPI_UINT8_T : sizeof(T) == 2 ? MPI_UINT16_T : sizeof(T) == 4 ? MPI_UINT32_T : MPI_UINT64_T;
}

/// Ends all processes, after a line on stderr that says why.
inline void abort_job(const std::exception_ptr& error) noexcept {
  const auto say = [](const char* why) { std::fprintf(stderr, "swiglu: an MPI process aborts the job: %s\n", why); };
  try {
    if (error) std::rethrow_exception(error);
    say("an exception unwinds it");
  } catch (const std::exception& e) {
    say(e.what());
  } catch (...) {
    say("an exception that is not a std::exception");
  }
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/// Whether MPI has been started and not ended.
inline bool mpi_runs() noexcept {
  int begun = 0, over = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&over);
  return begun != 0 && over == 0;
}

/// Throws std::logic_error if MPI may not be called from here: it does not run, or not for programs with threads, or
/// only for the main one and this is another.
inline void require_mpi_here() {
  if (!mpi_runs())
    throw std::logic_error("swiglu: MPI is not running: MPI_Init_thread, or swiglu::mpi_session, comes first");
  int level = MPI_THREAD_SINGLE, main = 0;
  mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_FUNNELED)
    throw std::logic_error(
        "swiglu: MPI was started with MPI_THREAD_SINGLE, but at least MPI_THREAD_FUNNELED is needed: call "
        "MPI_Init_thread and not MPI_Init, or use swiglu::mpi_session");
  mpi(MPI_Is_thread_main(&main), "MPI_Is_thread_main");
  if (level == MPI_THREAD_FUNNELED && main == 0)
    throw std::logic_error(
        "swiglu: MPI was started with MPI_THREAD_FUNNELED, and this is not the thread that started it: ask for "
        "MPI_THREAD_SERIALIZED");
}

}  // namespace comm_detail

}  // namespace swiglu
