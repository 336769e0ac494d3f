// SPDX-License-Identifier: MIT
#include <swiglu/comm/mpi_mesh.hpp>
#include <swiglu/comm/rank_ordered.hpp>

#include "bad_input.hpp"
#include "transport.hpp"

namespace char_lm {

namespace {

class processes final : public transport {
 public:
  bool root() const override { return world_.rank() == 0; }
  std::string kind() const override { return "processes"; }

  void check_mesh(int data, int tensor) const override {
    if (data * tensor != world_.size())
      throw bad_input("--mesh " + std::to_string(data) + "x" + std::to_string(tensor) + ": needs " +
                      std::to_string(data * tensor) + " processes, mpiexec has started " +
                      std::to_string(world_.size()));
  }

  void train(const training_job<float>& job, int data, int tensor, bool rank_ordered) override {
    swiglu::mpi_mesh ranks(MPI_COMM_WORLD, data, tensor);
    if (rank_ordered) {
      swiglu::rank_ordered data_order(ranks.data), tensor_order(ranks.tensor);
      axis data_axis(data_order), tensor_axis(tensor_order);
      train_rank(job, data_axis, tensor_axis);
    } else {
      axis data_axis(ranks.data), tensor_axis(ranks.tensor);
      train_rank(job, data_axis, tensor_axis);
    }
  }

  void give_up(std::exception_ptr error) noexcept override { world_.abort(error); }

 private:
  swiglu::mpi_session session_;
  swiglu::mpi_communicator world_{MPI_COMM_WORLD};
};

}  // namespace

std::unique_ptr<transport> mpi_transport() { return std::make_unique<processes>(); }

}  // namespace char_lm
