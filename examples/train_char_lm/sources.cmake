# The sources of train_char_lm, for examples/CMakeLists.txt and for the tests, which are built without the examples. The
# parts know nothing of the library and are tested one by one; train.cpp holds the model, once for each way to cut it.
# One of mpi.cpp, with swiglu::mpi, and no_mpi.cpp makes the program complete.
set(train_char_lm_parts checkpoint.cpp corpus.cpp entropy.cpp options.cpp progress.cpp)
set(train_char_lm_program train.cpp threads.cpp main.cpp)
set(train_char_lm_mpi mpi.cpp)
set(train_char_lm_no_mpi no_mpi.cpp)
foreach(list IN ITEMS train_char_lm_parts train_char_lm_program train_char_lm_mpi train_char_lm_no_mpi)
  list(TRANSFORM ${list} PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
endforeach()
