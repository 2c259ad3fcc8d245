# tenon_add_module(NAME source... [PYTHON] [CUDA] [VARIANTS cpu...])
# tenon_install_module(NAME DESTINATION folder [COMPONENT component])
#
# Builds functions that are written with tenon/function.h, in C, C++ or CUDA, as the target NAME:
#   - a library for tenon.load: the file NAME.tenon. It links nothing, not even Python, so one build works with every
#     version. The suffix is the same on every system, and Python does not mistake the file for one of its own modules.
#   - with PYTHON, an extension for `import NAME`; a source has TENON_PY_MODULE(NAME) of tenon/python.h. It uses the stable
#     ABI of Python 3.12 and newer; for an older or a free-threaded Python it is built for that version. The bridge that
#     extensions need is compiled once for a project.
#
# VARIANTS x86-64-v3 x86-64-v4 builds the same sources for newer CPUs too, as NAME.x86-64-v3.tenon and so on, with the
# definitions, options and libraries of the target; Tenon loads the best one that the CPU has. The names are x86-64-v2,
# x86-64-v3, x86-64-v4, armv8.2-a and sve; those of another processor, and all of them with MSVC, are left out.
# tenon_install_module installs the module with its variants.
#
# CUDA enables the language for sources that end in .cu. All symbols but the entry point are hidden. Definitions, libraries
# and other properties of the target are set as usual.
cmake_policy(VERSION 3.16...3.31)

# A macro, because enable_language does not work in a function.
macro(tenon_add_module)
    if(";${ARGN};" MATCHES ";CUDA;")
        include(CheckLanguage)
        check_language(CUDA)
        if(NOT CMAKE_CUDA_COMPILER)
            message(FATAL_ERROR "tenon_add_module: no CUDA compiler was found. Install the CUDA toolkit, or set "
                                "CMAKE_CUDA_COMPILER to the path of nvcc.")
        endif()
        enable_language(CUDA)
    endif()
    _tenon_add_module(${ARGN})
endmacro()

function(_tenon_add_module)
    cmake_parse_arguments(PARSE_ARGV 0 module "PYTHON;CUDA" "" "VARIANTS")
    set(sources ${module_UNPARSED_ARGUMENTS})
    list(POP_FRONT sources name)
    _tenon_check_module("${name}" "${sources}" "${module_CUDA}")

    add_library(${name} MODULE ${sources})
    target_link_libraries(${name} PRIVATE Tenon::headers)
    set_target_properties(
        ${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
                           VISIBILITY_INLINES_HIDDEN ON)
    foreach(feature c_std_99 cxx_std_17 cuda_std_17)
        string(REGEX MATCH "^[a-z]+" language ${feature})
        string(TOUPPER ${language} language)
        if(CMAKE_${language}_COMPILER_LOADED)
            target_compile_features(${name} PRIVATE ${feature})
        endif()
    endforeach()
    if(module_PYTHON)
        _tenon_make_extension(${name})
    else()
        set_target_properties(${name} PROPERTIES SUFFIX .tenon)
    endif()
    if(module_VARIANTS)
        _tenon_add_variants(${name} "${module_VARIANTS}" "${sources}" "${module_PYTHON}")
    endif()
endfunction()

function(_tenon_add_variants name variants sources python)
    set(error FATAL_ERROR "tenon_add_module(${name}): ")
    if(python)
        message(${error} "an extension for `import` has no variants. Use VARIANTS without PYTHON.")
    endif()
    set(processor ${CMAKE_SYSTEM_PROCESSOR})
    if(APPLE AND CMAKE_OSX_ARCHITECTURES)
        set(processor ${CMAKE_OSX_ARCHITECTURES}) # a file for two processors has no variants
    endif()
    set(targets)
    foreach(variant ${variants})
        set(machine ${variant})
        if(variant MATCHES "^x86-64-v[234]$")
            set(fitting "^(x86_64|AMD64|amd64)$")
        elseif(variant MATCHES "^(armv8\\.2-a|sve)$")
            set(fitting "^(aarch64|arm64|ARM64)$")
            if(variant STREQUAL "sve")
                set(machine armv8.2-a+sve)
            endif()
        else()
            message(${error} "'${variant}' is not a variant. The variants are x86-64-v2, x86-64-v3, x86-64-v4, armv8.2-a and "
                             "sve.")
        endif()
        if(NOT "${processor}" MATCHES "${fitting}" OR MSVC)
            continue()
        endif()
        set(target ${name}.${variant})
        add_library(${target} MODULE ${sources})
        set_target_properties(
            ${target} PROPERTIES PREFIX "" SUFFIX .tenon C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
                                 CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                 LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:${name}>)
        # What is set on the module later counts too.
        target_include_directories(${target} PRIVATE $<TARGET_PROPERTY:${name},INCLUDE_DIRECTORIES>)
        target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:${name},COMPILE_DEFINITIONS>)
        target_compile_options(
            ${target} PRIVATE $<TARGET_PROPERTY:${name},COMPILE_OPTIONS> $<$<COMPILE_LANGUAGE:C>:-march=${machine}>
                              $<$<COMPILE_LANGUAGE:CXX>:-march=${machine}>)
        target_compile_features(${target} PRIVATE $<TARGET_PROPERTY:${name},COMPILE_FEATURES>)
        target_link_libraries(${target} PRIVATE $<TARGET_PROPERTY:${name},LINK_LIBRARIES>)
        add_dependencies(${name} ${target})
        list(APPEND targets ${target})
    endforeach()
    set_target_properties(${name} PROPERTIES TENON_VARIANTS "${targets}")
endfunction()

function(tenon_install_module name)
    cmake_parse_arguments(PARSE_ARGV 1 install "" "DESTINATION;COMPONENT" "")
    if(NOT TARGET ${name})
        message(FATAL_ERROR "tenon_install_module: there is no target ${name}. Call tenon_add_module(${name} ...) first.")
    elseif(NOT install_DESTINATION OR install_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "tenon_install_module(${name}): expected DESTINATION and a folder, and perhaps COMPONENT and a name.")
    endif()
    get_target_property(variants ${name} TENON_VARIANTS)
    if(NOT variants)
        set(variants)
    endif()
    set(component)
    if(install_COMPONENT)
        set(component COMPONENT ${install_COMPONENT})
    endif()
    install(TARGETS ${name} ${variants} DESTINATION ${install_DESTINATION} ${component})
endfunction()

# Each mistake in a call that CMake itself would report late, in other terms, or not at all.
function(_tenon_check_module name sources cuda)
    set(error FATAL_ERROR "tenon_add_module(${name}): ")
    if(NOT name MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
        message(FATAL_ERROR "tenon_add_module: expected a name and sources, got the name '${name}'. Use letters, digits and "
                            "'_', as in the name of a C function.")
    elseif(TARGET ${name})
        message(${error} "there is already a target of this name. Choose another.")
    elseif(NOT sources)
        message(${error} "expected at least one source, as in tenon_add_module(${name} ${name}.c).")
    endif()
    foreach(source ${sources})
        get_filename_component(suffix "${source}" LAST_EXT)
        if(source MATCHES "^[A-Z_]+$")
            message(${error} "'${source}' is not an option. The options are PYTHON, CUDA and VARIANTS.")
        elseif(suffix STREQUAL ".cu" AND NOT cuda)
            message(${error} "'${source}' is CUDA source. Add the option CUDA.")
        elseif(suffix MATCHES "^\\.(cc|cpp|cxx|c\\+\\+|C)$" AND NOT CMAKE_CXX_COMPILER_LOADED)
            message(${error} "'${source}' is C++ source, and the project does not use C++. Add CXX to the LANGUAGES of "
                             "project().")
        elseif(suffix STREQUAL ".c" AND NOT CMAKE_C_COMPILER_LOADED)
            message(${error} "'${source}' is C source, and the project does not use C. Add C to the LANGUAGES of project().")
        endif()
    endforeach()
endfunction()

function(_tenon_make_extension name)
    set(error FATAL_ERROR "tenon_add_module(${name} PYTHON): ")
    if(CMAKE_VERSION VERSION_LESS 3.18)
        message(${error} "this needs CMake 3.18 or newer, and this is ${CMAKE_VERSION}.")
    elseif(NOT TARGET Tenon::python_sources)
        message(${error} "this installation of Tenon was built without Python. Use that of `pip install libtenon`.")
    elseif(NOT CMAKE_C_COMPILER_LOADED)
        message(${error} "the bridge to Python is written in C. Add C to the LANGUAGES of project().")
    endif()
    # The Python of another machine does not run here; its headers are enough.
    set(components Development.Module)
    if(NOT CMAKE_CROSSCOMPILING)
        list(PREPEND components Interpreter)
    endif()
    find_package(Python 3.9 QUIET COMPONENTS ${components})
    if(NOT Python_FOUND)
        message(${error} "the development files of Python 3.9 or newer were not found. Install them (in Debian: python3-dev), "
                         "or set Python_EXECUTABLE, or Python_INCLUDE_DIR if you build for another machine.")
    endif()

    set(soabi ${Python_SOABI})
    if(NOT soabi AND NOT SKBUILD_SOABI MATCHES "^abi3")
        set(soabi ${SKBUILD_SOABI})
    endif()
    set(free_threaded)
    foreach(folder ${Python_INCLUDE_DIRS})
        if(EXISTS ${folder}/pyconfig.h)
            file(STRINGS ${folder}/pyconfig.h free_threaded REGEX "define Py_GIL_DISABLED 1")
        endif()
    endforeach()
    set(limited)
    if(Python_VERSION VERSION_GREATER_EQUAL 3.12 AND NOT free_threaded AND NOT soabi MATCHES "^(cpython-|cp)[0-9]+d?t")
        set(limited Py_LIMITED_API=0x030c0000)
        set(soabi abi3)
    endif()
    if(SKBUILD_SABI_VERSION AND SKBUILD_SABI_VERSION VERSION_LESS 3.12)
        message(${error} "the wheel would claim the stable ABI of Python ${SKBUILD_SABI_VERSION}, and the module needs that of "
                         "3.12. Set wheel.py-api = \"cp312\" in the table [tool.scikit-build] of pyproject.toml.")
    endif()

    if(NOT TARGET tenon_module_bridge)
        add_library(tenon_module_bridge STATIC EXCLUDE_FROM_ALL)
        target_link_libraries(tenon_module_bridge PRIVATE Tenon::python_sources)
        target_include_directories(tenon_module_bridge SYSTEM PRIVATE ${Python_INCLUDE_DIRS})
        target_compile_definitions(tenon_module_bridge PRIVATE TENON_HIDDEN ${limited})
        set_target_properties(tenon_module_bridge PROPERTIES C_STANDARD 11 C_VISIBILITY_PRESET hidden
                                                             POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
    endif()
    target_compile_definitions(${name} PRIVATE TENON_HIDDEN ${limited})
    target_link_libraries(${name} PRIVATE tenon_module_bridge)
    if(WIN32 AND limited)
        # The header names the library of the stable ABI; Python::Module would be that of one version.
        target_include_directories(${name} SYSTEM PRIVATE ${Python_INCLUDE_DIRS})
        target_link_directories(${name} PRIVATE ${Python_LIBRARY_DIRS})
    else()
        target_link_libraries(${name} PRIVATE Python::Module)
    endif()
    if(WIN32)
        set_target_properties(${name} PROPERTIES SUFFIX .pyd)
    elseif(soabi)
        set_target_properties(${name} PROPERTIES SUFFIX .${soabi}${CMAKE_SHARED_MODULE_SUFFIX})
    endif()
endfunction()
