# The program on processes and on threads: PROGRAM, by LAUNCHER (to which the number of processes is added), in WORK_DIR.

cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/expect.cmake)

# run(WORDS...) as it is, processes(N WORDS...) as N MPI processes; both leave result, out, err.
macro(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK_DIR} TIMEOUT 100 RESULT_VARIABLE result OUTPUT_VARIABLE out
                  ERROR_VARIABLE err)
endmacro()
macro(threads)
  run(${PROGRAM} ${ARGN})
endmacro()
macro(processes n)
  run(${LAUNCHER} ${n} ${PROGRAM} --transport mpi ${ARGN})
endmacro()

function(same_file what a b)
  file(SHA256 ${WORK_DIR}/${a} hash_a)
  file(SHA256 ${WORK_DIR}/${b} hash_b)
  expect("${what}" hash_a STREQUAL hash_b)
  set(failures ${failures} PARENT_SCOPE)
endfunction()

# The columns step, train, validation to `digits` decimals; the others are times.
function(curve to)
  string(REGEX MATCHALL " [0-9]+/6 +[0-9]+[.][0-9][0-9][0-9] *[0-9] +[0-9]+[.][0-9][0-9][0-9]" lines "${out}")
  set(${to} "${lines}" PARENT_SCOPE)
endfunction()

string(REPEAT "the quick brown fox jumps over the lazy dog\n" 20 text)
file(WRITE ${WORK_DIR}/a.txt "${text}")
string(REPEAT "pack my box with five dozen liquor jugs\n" 5 text)
file(WRITE ${WORK_DIR}/b.txt "${text}")
set(training a.txt b.txt --steps 6 --batch 20 --report-every 2 --sample 30)

# ---- the same bits on threads and, in rank order, on processes; without it the same to rounding

threads(${training} --mesh 2x2 --checkpoint threads)
expect("threads" result EQUAL 0 AND NOT err)
curve(expected)
string(REGEX REPLACE ".*The model writes:" "" expected_sample "${out}")
foreach(order IN ITEMS "--rank-ordered" "--seed=1")
  processes(4 ${training} --mesh 2x2 --checkpoint processes ${order})
  expect("processes ${order}" result EQUAL 0 AND NOT err)
  curve(found)
  list(LENGTH found lines)
  expect("three lines, printed once: only rank 0 prints" lines EQUAL 3)
  string(REGEX MATCHALL "The model writes" ends "${out}")
  list(LENGTH ends ends)
  expect("one end" ends EQUAL 1)
  expect("says what the ranks are" out MATCHES "2 data x 2 tensor processes")
  string(REGEX REPLACE ".*The model writes:" "" sample "${out}")
  expect("the same curve, ${expected} and not ${found}" found STREQUAL expected)
  expect("the same sample" sample STREQUAL expected_sample)
  if(order STREQUAL "--rank-ordered")
    same_file("the same bits" threads processes)
  endif()
endforeach()
# Four ranks along one axis: other orders of additions are other bits, which --rank-ordered takes away.
threads(${training} --mesh 4x1 --checkpoint threads4)
processes(4 ${training} --mesh 4x1 --checkpoint processes4 --rank-ordered)
same_file("the same bits on 4x1" threads4 processes4)

# ---- a checkpoint of one resumes on the other

threads(${training} --mesh 2x2 --checkpoint half --stop-at 3)
processes(4 a.txt b.txt --mesh 2x2 --resume half --checkpoint rest --rank-ordered)
expect("threads, then processes" result EQUAL 0)
same_file("threads, then processes" threads rest)
processes(4 ${training} --mesh 2x2 --checkpoint half --stop-at 3 --rank-ordered)
expect("a stop" result EQUAL 0)
threads(a.txt b.txt --mesh 2x2 --resume half --checkpoint rest)
same_file("processes, then threads" threads rest)

# ---- what is refused, once, and what fails

processes(3 ${training} --mesh 2x2)
string(REGEX MATCHALL "train_char_lm:" told "${err}")
list(LENGTH told told)
expect("a mesh of another size" NOT result EQUAL 0 AND told EQUAL 1 AND err MATCHES
                                                                       "--mesh 2x2: needs 4 processes, .* started 3")
processes(4 ${training} --mesh 2x2 --rate 1e30 --checkpoint spoilt)
expect("a run that diverges" NOT result EQUAL 0 AND err MATCHES "no longer a number")
expect("and leaves no checkpoint" NOT EXISTS ${WORK_DIR}/spoilt)

report_failures()
