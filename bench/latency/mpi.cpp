// SPDX-License-Identifier: MIT

// Two ranks that are processes of MPI: mpiexec -n 2 latency_mpi.

#include <stdexcept>

#include <swiglu/comm/mpi.hpp>

#include "latency.hpp"

int main() {
  const swiglu::mpi_session session;
  return session.run([] {
    swiglu::mpi_communicator world(MPI_COMM_WORLD);
    if (world.size() != 2) throw std::invalid_argument("latency_mpi: start two ranks: mpiexec -n 2 latency_mpi");
    const auto seconds = bench::latency_of(world);
    if (world.rank() == 0) bench::print_latency("mpi", seconds);
  });
}
