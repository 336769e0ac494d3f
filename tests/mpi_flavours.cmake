# The MPI libraries on this machine, each as a target swiglu_mpi_<flavour> and a launcher. Debian installs several next to
# each other, under names with a suffix; elsewhere it is the one that find_package finds.

set(mpi_flavours "")
foreach(flavour IN ITEMS openmpi mpich)
  find_program(SWIGLU_MPICXX_${flavour} mpicxx.${flavour})
  find_program(SWIGLU_MPIEXEC_${flavour} mpiexec.${flavour})
  mark_as_advanced(SWIGLU_MPICXX_${flavour} SWIGLU_MPIEXEC_${flavour})
  if(NOT SWIGLU_MPICXX_${flavour} OR NOT SWIGLU_MPIEXEC_${flavour})
    message(STATUS "swiglu: no mpicxx.${flavour} or mpiexec.${flavour}, the tests of MPI do not run with it")
    continue()
  endif()
  execute_process(COMMAND ${SWIGLU_MPICXX_${flavour}} -show OUTPUT_VARIABLE command COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(command UNIX_COMMAND "${command}")
  set(includes ${command})
  list(FILTER includes INCLUDE REGEX "^-I")
  list(TRANSFORM includes REPLACE "^-I" "")
  set(libraries ${command})
  list(FILTER libraries INCLUDE REGEX "^-(L|l)")
  list(FILTER libraries EXCLUDE REGEX "^-l(mpi_cxx|mpichcxx)$") # the bindings for C++ that MPI 3 has removed
  add_library(swiglu_mpi_${flavour} INTERFACE)
  target_include_directories(swiglu_mpi_${flavour} SYSTEM INTERFACE ${includes})
  target_compile_definitions(swiglu_mpi_${flavour} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_link_libraries(swiglu_mpi_${flavour} INTERFACE ${libraries})
  list(APPEND mpi_flavours ${flavour})
endforeach()
if(NOT mpi_flavours AND TARGET swiglu::mpi AND MPIEXEC_EXECUTABLE)
  add_library(swiglu_mpi_default INTERFACE)
  target_link_libraries(swiglu_mpi_default INTERFACE swiglu::mpi)
  set(SWIGLU_MPIEXEC_default ${MPIEXEC_EXECUTABLE})
  list(APPEND mpi_flavours default)
endif()
if(NOT mpi_flavours)
  message(STATUS "swiglu: MPI is not installed (Debian: libopenmpi-dev openmpi-bin, libmpich-dev mpich), "
                 "swiglu/comm/mpi.hpp is not tested")
endif()

# Open MPI refuses to run as root and to start more ranks than cores unless told otherwise; it binds each rank to a core;
# and where it may not read another process's memory it would say so in every call.
set(mpi_environment
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
    OMPI_MCA_btl_vader_single_copy_mechanism=none)
