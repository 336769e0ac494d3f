// SPDX-License-Identifier: MIT
// Jobs that fail. Each has to come to its end soon, and say why: `mpi_faults SCENE`, on four ranks. What is expected of
// a scene stands in tests/CMakeLists.txt.

#include <chrono>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include <swiglu/comm/checked.hpp>
#include <swiglu/comm/mpi.hpp>
#include <swiglu/comm/mpi_mesh.hpp>

namespace {

using namespace std::chrono_literals;
using axes_of = swiglu::mesh<swiglu::mpi_communicator, swiglu::mpi_communicator>;

template <class C>
void sum(C& c, std::size_t count = 64) {
  std::vector<float> v(count, 1.0F);
  c.all_reduce(std::span<float>(v));
}

void scene(std::string_view name, axes_of axes) {
  const int rank = axes.rank();
  if (name == "throws_before") {
    if (rank == 2) throw std::runtime_error("thrown before any collective");
    sum(axes.data), sum(axes.tensor);
  } else if (name == "throws_between") {
    sum(axes.data);
    if (rank == 1) throw std::runtime_error("thrown between two collectives");
    sum(axes.tensor), sum(axes.data);
  } else if (name == "throws_with_request") {
    std::vector<float> v(100000, 1.0F);
    auto request = axes.tensor.iall_reduce(std::span<float>(v));
    if (rank == 3) throw std::runtime_error("thrown with a request on its way");
    sum(axes.data);
    request.wait();
    sum(axes.data);
  } else if (name == "aborts") {
    if (rank == 0) {
      std::this_thread::sleep_for(50ms);
      axes.abort(std::make_exception_ptr(std::runtime_error("rank 0 has had enough")));
    }
    sum(axes.data), sum(axes.tensor), sum(axes.data);
  } else if (name == "leaves") {  // the others wait for it; so the deadline has to end the job
    if (rank == 3) return;
    sum(axes.data), sum(axes.tensor);
    sum(axes.data), sum(axes.tensor);
  } else if (name == "crosses") {  // half of the ranks on one axis, half on the other
    sum(rank == 0 || rank == 3 ? axes.data : axes.tensor);
  } else {
    throw std::invalid_argument("no such scene");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc == 2 ? argv[1] : "";
  if (name == "unwinds") {  // no run(), which reports the exception: the destructor of the session has to notice it
    try {
      const swiglu::mpi_session session;
      swiglu::mpi_mesh ranks(MPI_COMM_WORLD, 2, 2);
      scene("throws_between", ranks.axes());
    } catch (const std::exception&) {
    }
    return EXIT_FAILURE;
  }
  // [session]
  const swiglu::mpi_session session;  // MPI_Init_thread; at the end MPI_Finalize
  return session.run([&] {            // what is thrown in here ends the job, with a line that says what it was
    // [/session]
    swiglu::mpi_options options;
    if (name == "leaves" || name == "crosses") options.timeout = 500ms;
    swiglu::mpi_mesh ranks(MPI_COMM_WORLD, 2, 2, options);
    scene(name, ranks.axes());
  });
}
