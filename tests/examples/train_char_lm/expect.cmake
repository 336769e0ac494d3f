# What the scripts that start the program have in common: an empty WORK_DIR, and expectations on `result`, `out` and `err`
# of the last run, all of which are looked at before the script fails.

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
set(failures 0)

function(expect what)
  if(NOT (${ARGN})) # an empty "${variable}" would be lost here: conditions name variables
    message("FAILED: ${what}\n  exit ${result}\n  stdout: ${out}\n  stderr: ${err}")
    math(EXPR n "${failures} + 1")
    set(failures ${n} PARENT_SCOPE)
  endif()
endfunction()

macro(report_failures)
  if(failures GREATER 0)
    message(FATAL_ERROR "${failures} failures")
  endif()
endmacro()
