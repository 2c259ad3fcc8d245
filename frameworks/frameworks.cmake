# Which frameworks this build has: TENON_FRAMEWORKS, or every folder that is here. A framework may have
#   array/          C that joins the bridge
#   package/        Python files of the package, and C for them
#   CMakeLists.txt  more; libraries that the package links are in the global property TENON_NATIVE_LIBRARIES

set(TENON_FRAMEWORKS "" CACHE STRING "The frameworks to build, separated by ';' or ','; empty: all of them")

set(here ${PROJECT_SOURCE_DIR}/frameworks)
file(GLOB folders RELATIVE ${here} CONFIGURE_DEPENDS ${here}/*)
set(all)
foreach(folder ${folders})
    if(IS_DIRECTORY ${here}/${folder})
        list(APPEND all ${folder})
    endif()
endforeach()
string(REPLACE "," ";" TENON_CHOSEN_FRAMEWORKS "${TENON_FRAMEWORKS}")
if(NOT TENON_CHOSEN_FRAMEWORKS)
    set(TENON_CHOSEN_FRAMEWORKS ${all})
endif()

set(TENON_ARRAY_FILES ${here}/list.c)
set(TENON_NATIVE_FILES ${here}/native_list.c)
set(TENON_PACKAGE_FILES)
foreach(name ${TENON_CHOSEN_FRAMEWORKS})
    if(NOT name IN_LIST all)
        message(FATAL_ERROR "TENON_FRAMEWORKS: there is no framework '${name}'; choose from: ${all}")
    endif()
    file(GLOB files CONFIGURE_DEPENDS ${here}/${name}/array/*.c)
    list(APPEND TENON_ARRAY_FILES ${files})
    file(GLOB files CONFIGURE_DEPENDS ${here}/${name}/package/*.c)
    list(APPEND TENON_NATIVE_FILES ${files})
    file(GLOB files CONFIGURE_DEPENDS ${here}/${name}/package/*.py ${here}/${name}/package/*.pyi)
    list(APPEND TENON_PACKAGE_FILES ${files})
endforeach()

# The chosen lines of list.h, as a macro on the command line.
set(TENON_LIST_DEFINITION)
if(TENON_FRAMEWORKS)
    file(READ ${here}/list.h text)
    string(REGEX MATCHALL "ARRAY\\([a-z]+\\)( NATIVE\\([a-z]+\\))?" lines "${text}")
    set(chosen)
    foreach(line ${lines})
        string(REGEX REPLACE "^ARRAY\\(([a-z]+)\\).*" "\\1" name "${line}")
        if(name IN_LIST TENON_CHOSEN_FRAMEWORKS)
            string(APPEND chosen "${line} ")
        endif()
    endforeach()
    set(TENON_LIST_DEFINITION "-DTENON__FRAMEWORKS(ARRAY,NATIVE)=${chosen}")
endif()
