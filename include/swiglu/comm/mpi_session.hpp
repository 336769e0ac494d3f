// SPDX-License-Identifier: MIT
#pragma once

// MPI for the length of main, so that a rank that fails does not leave the others waiting.

#include <mpi.h>

#include <cstdlib>
#include <exception>
#include <stdexcept>

#include <swiglu/comm/communicator.hpp>
#include <swiglu/comm/detail/mpi_calls.hpp>

namespace swiglu {

/// Starts MPI, and ends it when it goes. If an exception takes it away, ending it orderly would wait for peers that
/// wait for this rank: then it aborts the job. Let the exception of a failed rank pass it, or use run().
/// Throws std::logic_error if MPI was started before, or communicator_error if it cannot serve threads as asked.
class mpi_session {
 public:
  explicit mpi_session(int thread_level = MPI_THREAD_FUNNELED) : exceptions_(std::uncaught_exceptions()) {
    int begun = 0, provided = MPI_THREAD_SINGLE;
    MPI_Initialized(&begun);
    if (begun != 0) throw std::logic_error("swiglu::mpi_session: MPI has been started already");
    comm_detail::mpi(MPI_Init_thread(nullptr, nullptr, thread_level, &provided), "MPI_Init_thread");
    if (provided < thread_level) {
      MPI_Finalize();
      throw communicator_error("swiglu::mpi_session: this MPI does not serve threads as asked");
    }
  }
  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;
  ~mpi_session() {
    if (!comm_detail::mpi_runs()) return;
    if (std::uncaught_exceptions() > exceptions_)
      comm_detail::abort_job(nullptr);
    else
      MPI_Finalize();
  }

  /// Calls fn(); if it throws, aborts the job with a line on stderr that says what. For the whole of a program:
  /// `return session.run([&] { ... });`, the exit status.
  template <class F>
  int run(F&& fn) const noexcept {
    try {
      fn();
      return EXIT_SUCCESS;
    } catch (...) {
      comm_detail::abort_job(std::current_exception());
      return EXIT_FAILURE;
    }
  }

 private:
  int exceptions_;
};

}  // namespace swiglu
