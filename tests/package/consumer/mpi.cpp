// SPDX-License-Identifier: MIT

#include <swiglu/comm/mpi_mesh.hpp>

int main() {
  const swiglu::mpi_session session;
  return session.run([] {
    swiglu::mpi_mesh ranks(MPI_COMM_SELF, 1, 1);
    float x = 1;
    ranks.axes().data.all_reduce(std::span<float>(&x, 1));
  });
}
