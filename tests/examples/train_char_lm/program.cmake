# The program as it is started: PROGRAM, in WORK_DIR.

cmake_minimum_required(VERSION 3.25)
string(ASCII 13 return)
string(ASCII 27 escape)
include(${CMAKE_CURRENT_LIST_DIR}/expect.cmake)

# Runs the program; leaves result, out, err.
macro(run)
  execute_process(
    COMMAND ${PROGRAM} ${ARGN}
    WORKING_DIRECTORY ${WORK_DIR}
    RESULT_VARIABLE result
    OUTPUT_VARIABLE out
    ERROR_VARIABLE err)
endmacro()

# Exit 2, one line on stderr that matches `message`, nothing on stdout, no file created, changed or removed.
function(refused message)
  files_now(before)
  run(${ARGN})
  files_now(after)
  string(REGEX MATCHALL "\n" lines "${err}")
  list(LENGTH lines lines)
  expect("${ARGN}: exit 2" result EQUAL 2)
  expect("${ARGN}: one line that says ${message}" lines EQUAL 1 AND err MATCHES "^train_char_lm: .*${message}")
  expect("${ARGN}: nothing on stdout" NOT out)
  expect("${ARGN}: touches no file" before STREQUAL after)
  set(failures ${failures} PARENT_SCOPE)
endfunction()

function(files_now to)
  file(GLOB names RELATIVE ${WORK_DIR} ${WORK_DIR}/*)
  set(all "")
  foreach(name IN LISTS names)
    set(hash folder)
    if(NOT IS_DIRECTORY ${WORK_DIR}/${name})
      file(SHA256 ${WORK_DIR}/${name} hash)
    endif()
    string(APPEND all "${name} ${hash}\n")
  endforeach()
  set(${to} "${all}" PARENT_SCOPE)
endfunction()

function(same_file what a b)
  file(SHA256 ${WORK_DIR}/${a} hash_a)
  file(SHA256 ${WORK_DIR}/${b} hash_b)
  expect("${what}" hash_a STREQUAL hash_b)
  set(failures ${failures} PARENT_SCOPE)
endfunction()

# ---- texts

string(REPEAT "the quick brown fox jumps over the lazy dog\n" 20 text)
file(WRITE ${WORK_DIR}/a.txt "${text}")
string(REPEAT "pack my box with five dozen liquor jugs\n" 5 text)
file(WRITE ${WORK_DIR}/b.txt "${text}")
file(WRITE ${WORK_DIR}/short.txt "short")
file(MAKE_DIRECTORY ${WORK_DIR}/folder)
set(texts a.txt b.txt) # b.txt, the last, is held out
set(small --steps 6 --batch 20 --report-every 2 --sample 30)

# ---- help

run(--help)
expect("--help: exit 0" result EQUAL 0 AND out MATCHES "--mesh" AND NOT err)

# ---- a run into a pipe, and the same on every mesh

foreach(mesh IN ITEMS 1x1 2x1 1x2 2x2 1x4 3x1)
  run(${texts} ${small} --mesh ${mesh})
  expect("${mesh}: exit 0" result EQUAL 0 AND NOT err)
  expect("${mesh}: plain lines" NOT out MATCHES "[${return}${escape}]")
  # Step, train, validation; the other columns are times. Rounding may show in the last of four digits.
  string(REGEX MATCHALL " [0-9]/6 +[0-9]+[.][0-9][0-9][0-9] *[0-9] +[0-9]+[.][0-9][0-9][0-9]" curve "${out}")
  list(LENGTH curve lines)
  expect("${mesh}: three lines" lines EQUAL 3)
  foreach(word IN ITEMS unigram bigram "this model" "The model writes")
    expect("${mesh}: ends with ${word}" out MATCHES "${word}")
  endforeach()
  if(mesh STREQUAL 1x1)
    set(expected "${curve}")
    string(REGEX REPLACE ".*The model writes:" "" expected_sample "${out}")
  endif()
  string(REGEX REPLACE ".*The model writes:" "" sample "${out}")
  expect("${mesh}: the curve of 1x1, ${expected}, not ${curve}" curve STREQUAL expected)
  expect("${mesh}: writes what 1x1 writes" sample STREQUAL expected_sample)
endforeach()

# ---- N steps, a stop and N more are 2N steps, to the last bit; on another mesh to rounding

run(${texts} ${small} --checkpoint whole)
expect("a checkpoint at the end" result EQUAL 0)
run(${texts} ${small} --checkpoint half --stop-at 3)
expect("a stop" result EQUAL 0)
run(${texts} --resume half --checkpoint rest --sample 30)
expect("a resumed run" result EQUAL 0)
same_file("N + N steps are 2N steps" whole rest)
run(${texts} ${small} --checkpoint regularly --checkpoint-every 2)
same_file("earlier checkpoints change nothing" whole regularly)
run(${texts} --resume half --sample 0 --mesh 1x4)
expect("a checkpoint of 2x2 resumes on 1x4" result EQUAL 0 AND out MATCHES "6/6")
file(GLOB left ${WORK_DIR}/*.tmp)
expect("no temporary file is left" NOT left)

# ---- what is refused

refused("--stepz: there is no such flag" --stepz 3)
refused("--steps: its value is missing" ${texts} --steps)
refused("--steps 0: expected a whole number" ${texts} --steps 0)
refused("--rate fast: expected a number" ${texts} --rate fast)
refused("--transport mpi: this program was built without MPI" ${texts} --transport mpi)
refused("--mesh 2: expected DATAxTENSOR" ${texts} --mesh 2)
refused("--mesh 2x3: .*1, 2 or 4 tensor ranks, not 3" ${texts} --mesh 2x3)
refused("--mesh 9x1: a batch of 8" ${texts} --mesh 9x1 --batch 8)
refused("missing.txt: cannot be read" missing.txt)
refused("folder: is a directory" a.txt folder)
refused("short.txt: too short: 5 characters" short.txt b.txt)
refused("short.txt: too short" a.txt --validate short.txt)
refused("learned and held out" a.txt --validate a.txt)
refused("missing: .*cannot be read" ${texts} --resume missing)
refused("a.txt: is no safetensors file" ${texts} --resume a.txt)
refused("a.txt: is there already, and is no checkpoint" ${texts} --checkpoint a.txt)
refused("there is no folder" ${texts} --checkpoint missing/c)
refused("--checkpoint-every: needs --checkpoint" ${texts} --checkpoint-every 2)
refused("another text" b.txt a.txt --resume half)
refused("--steps 9: the checkpoint was made with 6" ${texts} --resume half --steps 9)
refused("nothing to do" ${texts} --resume whole)

# ---- a checkpoint that was cut off or damaged (its other bytes: checkpoint_test.cpp)

execute_process(COMMAND head -c 100000 ${WORK_DIR}/half OUTPUT_FILE ${WORK_DIR}/cut)
refused("cut: .*cut off" ${texts} --resume cut)
execute_process(COMMAND head -c -1 ${WORK_DIR}/half COMMAND sh -c "cat; printf x" OUTPUT_FILE ${WORK_DIR}/damaged)
refused("damaged: .*checksum" ${texts} --resume damaged)

# ---- any other failure is 1

run(${texts} ${small} --rate 1e30 --checkpoint spoilt)
expect("a run that diverges: exit 1, one line" result EQUAL 1 AND err MATCHES "no longer a number")
expect("and leaves no checkpoint" NOT EXISTS ${WORK_DIR}/spoilt)

report_failures()
