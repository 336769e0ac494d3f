# cmake -DLAUNCHER="mpiexec;-n;4" -DPROGRAM=file -DARGUMENT=word -DTEXT=regex -P job_fails.cmake: the job ends by itself, as a
# failure, and says why. (Not a property of the test: a launcher may crash when it kills several processes that fail at
# once, and that is not what is asked.)
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${LAUNCHER} ${PROGRAM} ${ARGUMENT} TIMEOUT 50 RESULT_VARIABLE result OUTPUT_VARIABLE out
                ERROR_VARIABLE err)
if(result MATCHES "timeout")
  message(FATAL_ERROR "${ARGUMENT}: the job does not end\n${out}\n${err}")
elseif(result EQUAL 0)
  message(FATAL_ERROR "${ARGUMENT}: the job ends as if nothing had happened\n${out}\n${err}")
elseif(NOT "${out}${err}" MATCHES "${TEXT}")
  message(FATAL_ERROR "${ARGUMENT}: the job does not say \"${TEXT}\"\n${out}\n${err}")
endif()
