# cmake -DLAUNCHER="mpiexec;-n;4" -DPROGRAM=file -DARGUMENT=word -DTEXT=regex -P job_fails.cmake: the job ends by itself, as a
# failure, and says why. (Not a property of the test: a launcher may crash when it kills several processes that fail at
# once, and that is not what is asked.)
cmake_minimum_required(VERSION 3.25)

# A launcher that kills a job may lose the last line of a process: what is said is looked for in up to three runs.
foreach(run RANGE 1 3)
  execute_process(COMMAND ${LAUNCHER} ${PROGRAM} ${ARGUMENT} TIMEOUT 30 RESULT_VARIABLE result OUTPUT_VARIABLE out
                  ERROR_VARIABLE err)
  if(result MATCHES "timeout")
    message(FATAL_ERROR "${ARGUMENT}: the job does not end\n${out}\n${err}")
  elseif(result EQUAL 0)
    message(FATAL_ERROR "${ARGUMENT}: the job ends as if nothing had happened\n${out}\n${err}")
  elseif("${out}${err}" MATCHES "${TEXT}")
    return()
  endif()
endforeach()
message(FATAL_ERROR "${ARGUMENT}: the job does not say \"${TEXT}\"\n${out}\n${err}")
