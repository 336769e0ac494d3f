// SPDX-License-Identifier: MIT
#include "bad_input.hpp"
#include "transport.hpp"

namespace char_lm {

std::unique_ptr<transport> mpi_transport() { throw bad_input("--transport mpi: this program was built without MPI"); }

}  // namespace char_lm
