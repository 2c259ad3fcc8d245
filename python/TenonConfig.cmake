# find_package(Tenon) with the package of Python gives tenon_add_module, Tenon::headers and Tenon::python_sources: the core and
# the CPython bridge, for an extension that compiles them. It has no compiled library, and works for every target machine.
get_filename_component(Tenon_PACKAGE_DIR "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
set(Tenon_python_FOUND TRUE)
foreach(component ${Tenon_FIND_COMPONENTS})
    if(Tenon_FIND_REQUIRED_${component} AND NOT Tenon_${component}_FOUND)
        set(Tenon_FOUND FALSE)
        set(Tenon_NOT_FOUND_MESSAGE "the Python package of Tenon has no component '${component}', only 'python'")
        return()
    endif()
endforeach()

# Only the sources need it, and they are C.
if(CMAKE_C_COMPILER_LOADED)
    include(CMakeFindDependencyMacro)
    set(THREADS_PREFER_PTHREAD_FLAG ON)
    find_dependency(Threads)
endif()
include("${CMAKE_CURRENT_LIST_DIR}/TenonModule.cmake")

if(NOT TARGET Tenon::headers)
    add_library(Tenon::headers INTERFACE IMPORTED)
    set_target_properties(Tenon::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Tenon_PACKAGE_DIR}/include")
    add_library(Tenon::python_sources INTERFACE IMPORTED)
    set_target_properties(
        Tenon::python_sources
        PROPERTIES INTERFACE_SOURCES "${Tenon_PACKAGE_DIR}/src/tenon.c;${Tenon_PACKAGE_DIR}/src/tenon_python.c"
                   INTERFACE_LINK_LIBRARIES "Tenon::headers;Threads::Threads;${CMAKE_DL_LIBS}")
endif()
unset(Tenon_PACKAGE_DIR)
