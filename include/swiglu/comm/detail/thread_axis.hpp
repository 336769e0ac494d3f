// SPDX-License-Identifier: MIT
#pragma once

// The state that thread ranks share: one per mesh, and in it one per line of ranks along an axis.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <swiglu/comm/detail/abort_state.hpp>
#include <swiglu/comm/detail/blackboard.hpp>
#include <swiglu/comm/detail/deadlock.hpp>
#include <swiglu/comm/detail/meeting.hpp>
#include <swiglu/comm/thread_options.hpp>

namespace swiglu::comm_detail {

/// A line of ranks that communicate with each other.
struct thread_axis {
  thread_axis(std::string_view axis_name, std::vector<int> global_ranks, bool crowded, std::size_t copy_limit,
              abort_state& state, deadlock_watch& watch)
      : name(axis_name),
        members(std::move(global_ranks)),
        meetings(static_cast<int>(members.size()), crowded, state),
        board(static_cast<int>(members.size()), members.size() > 1 ? copy_limit : 0),
        errors(state),
        deadlocks(watch) {}

  std::string_view name;     // "data", "tensor", or empty if there is but one axis
  std::vector<int> members;  // their ranks in the mesh, by rank along the axis
  meeting meetings;
  blackboard board;
  abort_state& errors;
  deadlock_watch& deadlocks;

  int member(int rank) const { return members[static_cast<std::size_t>(rank)]; }
  whereabouts& place(int rank) { return errors.places[static_cast<std::size_t>(member(rank))]; }

  deadlock_watch::seat& seat(int rank) { return deadlocks.at(member(rank), name == "tensor" ? 1 : 0); }

  std::string text(operation op) const {
    return (name.empty() ? std::string() : std::string(name) + " ").append(name_of(op));
  }
  std::string text(const shown_call& call) const {
    return (name.empty() ? std::string() : std::string(name) + " ").append(call.text());
  }

  /// Who has come to a meeting, who has not, and where those are.
  std::string attendance(std::uint64_t number) {
    std::string present, missing;
    for (int r = 0; r < meetings.size(); ++r) {
      std::string& list = meetings.has_arrived(r, number) ? present : missing;
      list.append(list.empty() ? "" : ", ").append("rank ").append(std::to_string(r));
      if (member(r) != r) list.append(" (rank ").append(std::to_string(member(r))).append(" of the mesh)");
      if (&list != &missing) continue;
      list.append(meetings.has_departed(r) ? " has departed" : meetings.has_joined(r) ? "" : " has never joined");
      if (!meetings.has_departed(r) && meetings.has_joined(r)) list.append(" ").append(place(r).text());
    }
    return "arrived: " + (present.empty() ? "nobody" : present) +
           "; missing: " + (missing.empty() ? "nobody" : missing);
  }
};

struct thread_state {
  /// One axis, without a name, if tensor is 0.
  thread_state(int data, int tensor, thread_options how)
      : options(std::move(how)),
        tensor_size(tensor == 0 ? 1 : tensor),
        errors(checked(data) * checked(tensor_size)),
        deadlocks(errors) {
    const bool crowded = data * tensor_size > usable_cpus();
    const auto line = [&](std::string_view name, int first, int step, int count) {
      std::vector<int> members;
      for (int i = 0; i < count; ++i) members.push_back(first + i * step);
      return std::make_unique<thread_axis>(name, std::move(members), crowded, options.copy_limit, errors, deadlocks);
    };
    for (int t = 0; t < tensor_size; ++t) data_lines.push_back(line(tensor == 0 ? "" : "data", t, tensor_size, data));
    for (int d = 0; d < data; ++d) tensor_lines.push_back(line("tensor", d * tensor_size, 1, tensor_size));
    stop.emplace(options.stop, [this] {
      errors.abort(std::make_exception_ptr(collective_cancelled("a stop was requested")), abort_state::nobody);
    });
  }

  int size() const noexcept { return static_cast<int>(errors.places.size()); }

  thread_options options;
  int tensor_size;
  abort_state errors;
  deadlock_watch deadlocks;
  std::vector<std::unique_ptr<thread_axis>> data_lines;           // by tensor coordinate
  std::vector<std::unique_ptr<thread_axis>> tensor_lines;         // by data coordinate
  std::optional<std::stop_callback<std::function<void()>>> stop;  // last: it uses all of the above

 private:
  static int checked(int extent) {
    if (extent < 1) throw std::invalid_argument("swiglu: a mesh needs at least one rank along each axis");
    return extent;
  }
};

}  // namespace swiglu::comm_detail
