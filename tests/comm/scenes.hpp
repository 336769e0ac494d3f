// SPDX-License-Identifier: MIT
#pragma once

// Scenes that every rank of a communicator plays, on any transport. Each returns what this rank found wrong, nothing if
// all was well.

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <swiglu/comm/collectives.hpp>
#include <swiglu/comm/communicator.hpp>

#include "comm/support.hpp"

namespace comm_test {

/// Collects complaints.
class complaints {
 public:
  void unless(bool holds, std::string_view otherwise) {
    if (!holds && text_.find(otherwise) == std::string::npos) text_.append(otherwise).append("\n");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Whether all ranks hold the same text: each compares the sum of all hashes with size() times its own.
template <class C>
bool same_text(C& c, std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char x : text) hash = (hash ^ static_cast<unsigned char>(x)) * 16777619U;
  std::array<float, 4> own{}, sum{};
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = sum[i] = static_cast<float>(hash >> (8 * i) & 255U);
  c.all_reduce(std::span<float>(sum));
  bool same = true;
  for (std::size_t i = 0; i < own.size(); ++i) same = same && sum[i] == own[i] * static_cast<float>(c.size());
  return same;
}

/// A communicator in rank order: the fold, to the bit, whatever the count and the bundle.
template <class C>
std::string folds(C& c) {
  complaints found;
  const int ranks = c.size();
  for (const std::size_t count : {0U, 1U, 2U, 3U, 16U, 17U, 1000U, 40003U}) {
    std::vector<float> v = terms(c.rank(), count);
    c.all_reduce(std::span<float>(v));
    found.unless(is_fold(v, ranks), "all_reduce is not the ascending fold");
  }
  std::vector<float> a = terms(c.rank(), 100), b = terms(c.rank(), 0), d = terms(c.rank(), 5003);
  const std::array<std::span<float>, 3> bundle{a, b, d};
  swiglu::all_reduce<float>(c, bundle);
  found.unless(is_fold(a, ranks) && is_fold(b, ranks) && is_fold(d, ranks), "a bundle is not the ascending fold");

  for (const std::size_t part : {0U, 1U, 3U, 16U, 12007U}) {
    std::vector<float> in = terms(c.rank(), part * static_cast<std::size_t>(ranks)), out(part), all(in.size(), 9.0F);
    swiglu::reduce_scatter(c, std::span<float>(in), std::span<float>(out));
    found.unless(is_fold(out, ranks, part * static_cast<std::size_t>(c.rank())), "reduce_scatter is not the fold");
    swiglu::all_gather(c, std::span<const float>(out), std::span<float>(all));
    found.unless(is_fold(all, ranks), "all_gather does not give every part to the bit");
  }
  return found.text();
}

/// A communicator that compares calls (threads, or a checked): every rank throws the same error, no buffer is changed,
/// and the ranks go on together. For three ranks or more.
template <class C>
std::string mismatches(C& c) {
  complaints found;
  using counts = std::vector<std::size_t>;
  struct scene {
    counts usual, odd;
    std::vector<std::string_view> usual_names, odd_names;
    std::string_view told;
  };
  const std::vector<scene> scenes{
      {{100}, {101}, {}, {}, "passes 100 elements as buffer 0"},
      {{100}, {0}, {}, {}, "passes 0 elements as buffer 0"},
      {{4}, {2, 2}, {}, {}, "passes 2 buffers"},
      {{1}, {}, {}, {}, "passes 0 buffers"},
      {{20, 30}, {30, 20}, {}, {}, "passes 20 elements as buffer 0"},
      {{50, 50}, {50, 50}, {"w1", "w3"}, {"w3", "w1"}, "passes \"w3\" as buffer 0"},
      {{50, 50, 9}, {50, 50, 9}, {"w1", "w3", "w2"}, {"w1", "w2", "w2"}, "passes \"w2\" as buffer 1"},
      {{7, 50, 9}, {7, 51, 9}, {}, {}, "passes 51 elements as buffer 1"},
      {{50}, {50}, {"w1"}, {}, "passes unnamed as buffer 0"},
      {{70000}, {200}, {}, {}, "passes 70000 elements as buffer 0"},
  };
  for (const scene& s : scenes)
    for (int odd_rank = 0; odd_rank < c.size(); ++odd_rank) {
      const bool odd = c.rank() == odd_rank;
      std::vector<std::vector<float>> buffers;
      std::vector<std::span<float>> spans;
      for (const std::size_t count : odd ? s.odd : s.usual) buffers.push_back(terms(c.rank(), count));
      for (auto& buffer : buffers) spans.emplace_back(buffer);
      const auto& names = odd ? s.odd_names : s.usual_names;
      const outcome seen = outcome_of(
          [&] { c.all_reduce(std::span<const std::span<float>>(spans), std::span<const std::string_view>(names)); });
      found.unless(seen.is<swiglu::collective_mismatch>(), "no collective_mismatch");
      found.unless(seen.says(s.told), std::string("does not say: ").append(s.told).append(", but ") + seen.text());
      found.unless(seen.says("rank " + std::to_string(odd_rank == 0 ? 1 : odd_rank)), "does not name the odd rank");
      for (const auto& buffer : buffers) found.unless(is_terms(buffer, c.rank()), "a buffer is changed");
      found.unless(same_text(c, seen.text()), "the ranks are told different things");
      std::vector<float> after(1000, 1.0F);
      c.all_reduce(std::span<float>(after));
      found.unless(after[999] == static_cast<float>(c.size()), "after a mismatch the ranks do not go on");
    }

  std::vector<float> in(12), out(12 * static_cast<std::size_t>(c.size()));
  std::vector<double> doubles(12);
  const auto told = [&](std::string_view what, auto usual, auto odd) {
    const outcome seen = outcome_of([&] { c.rank() == c.size() - 1 ? odd() : usual(); });
    found.unless(seen.is<swiglu::collective_mismatch>() && seen.says(what), what);
    found.unless(same_text(c, seen.text()), "the ranks are told different things of " + std::string(what));
  };
  const auto sum = [&] { c.all_reduce(std::span<float>(in)); };
  told("passes float64", sum, [&] { c.all_reduce(std::span<double>(doubles)); });
  if constexpr (swiglu::scatter_gather_communicator<C, float>)
    told("calls all_gather", sum, [&] { c.all_gather(std::span<const float>(in), std::span<float>(out)); });
  if constexpr (swiglu::nonblocking_communicator<C, float>)
    told("passes 11 elements", sum, [&] {
      auto request = c.iall_reduce(std::span<float>(in).first(11));
      request.wait();
    });
  return found.text();
}

/// Many small sums in a row, by ranks that dawdle.
template <class C>
std::string tiny_sums(C& c, int rounds) {
  complaints found;
  std::minstd_rand random(static_cast<unsigned>(c.rank()) + 1);
  const float due = static_cast<float>(c.size() * (c.size() - 1) / 2);
  for (int i = 0; i < rounds; ++i) {
    std::array<float, 3> x;
    x.fill(static_cast<float>(c.rank() + i % 100));
    c.all_reduce(std::span<float>(x).first(static_cast<std::size_t>(i % 4)));
    found.unless(i % 4 == 0 || x[0] == due + static_cast<float>(c.size() * (i % 100)), "a sum is wrong");
    if (random() % 4096 == 0) std::this_thread::sleep_for(50us);
    if (random() % 64 == 0) std::this_thread::yield();
  }
  return found.text();
}

}  // namespace comm_test
