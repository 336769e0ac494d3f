// SPDX-License-Identifier: MIT
#pragma once

// How a rank waits for a collective of MPI, and who is missing in one that does not come to an end.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <swiglu/comm/detail/meeting.hpp>
#include <swiglu/comm/detail/mpi_calls.hpp>

namespace swiglu::comm_detail {

/// Whether there is a machine with more ranks than processors they may use. MPI libraries that wait by looking, without
/// end, then keep the awaited rank from running. Collective.
inline bool crowded(MPI_Comm comm) {
  MPI_Comm here = MPI_COMM_NULL;
  int ranks = 0;
  mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here), "MPI_Comm_split_type");
  mpi(MPI_Comm_size(here, &ranks), "MPI_Comm_size");
  mpi(MPI_Comm_free(&here), "MPI_Comm_free");
  int more = ranks > usable_cpus() ? 1 : 0;
  mpi(MPI_Allreduce(MPI_IN_PLACE, &more, 1, MPI_INT, MPI_MAX, comm), "MPI_Allreduce");
  return more != 0;
}

/// Looks until `done()` is true, for ever or not, and says whether it was in time. Gives the processor away in between.
template <class Done>
bool holds_within(const std::optional<std::chrono::nanoseconds>& time, Done done) {
  const auto start = std::chrono::steady_clock::now();
  for (int looks = 0; !done(); ++looks) {
    if (time && std::chrono::steady_clock::now() - start > *time) return false;
    if (looks < 10000)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

/// Whoever is late in call `number` tells all others, and hears it from those that wait in it as well, for at most
/// `time`. The rest is missing: "rank 2, rank 3". Messages from rank to rank do not disturb collectives.
inline std::string missing_ranks(MPI_Comm comm, std::uint64_t number, std::chrono::nanoseconds time) {
  int rank = 0, size = 0;
  mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  const int tag = static_cast<int>(number % 32767);
  std::vector<MPI_Request> told(static_cast<std::size_t>(size), MPI_REQUEST_NULL), heard = told;
  std::vector<int> here(told.size());
  char nothing = 0;
  for (int r = 0; r < size; ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (r == rank) continue;
    mpi(MPI_Isend(&nothing, 0, MPI_CHAR, r, tag, comm, &told[i]), "MPI_Isend");
    mpi(MPI_Irecv(&nothing, 0, MPI_CHAR, r, tag, comm, &heard[i]), "MPI_Irecv");
  }
  here[static_cast<std::size_t>(rank)] = 1;
  holds_within(time, [&] {
    for (std::size_t i = 0; i < here.size(); ++i)
      if (here[i] == 0) mpi(MPI_Test(&heard[i], &here[i], MPI_STATUS_IGNORE), "MPI_Test");
    return std::ranges::count(here, 0) == 0;
  });
  std::string missing;
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (told[i] != MPI_REQUEST_NULL) MPI_Request_free(&told[i]);
    if (here[i] != 0) continue;
    missing.append(missing.empty() ? "rank " : ", rank ").append(std::to_string(i));
    MPI_Cancel(&heard[i]);
    MPI_Request_free(&heard[i]);
  }
  return missing.empty() ? "nobody" : missing;
}

}  // namespace swiglu::comm_detail
