/* The pyconfig.h of the stable ABI on any 64-bit, little-endian system. It is the only header of CPython that differs
 * between systems, so tools/wheels compiles for systems that are not this one with it and with the others of this Python. */
#ifndef TENON_CROSS_PYCONFIG_H
#define TENON_CROSS_PYCONFIG_H

#ifndef Py_LIMITED_API
#error "this pyconfig.h is only for the stable ABI"
#endif

#define SIZEOF_INT       4
#define SIZEOF_LONG      __SIZEOF_LONG__
#define SIZEOF_LONG_LONG 8
#define SIZEOF_SIZE_T    8
#define SIZEOF_VOID_P    8
#define SIZEOF_WCHAR_T   __SIZEOF_WCHAR_T__
#define SIZEOF_TIME_T    8

#define _GNU_SOURCE      1 /* what Python sees of the system: all of it */
#define _DARWIN_C_SOURCE 1

#define HAVE_STDDEF_H    1
#define HAVE_WCHAR_H     1
#define HAVE_LONG_LONG   1
#define WITH_DOC_STRINGS 1

#ifdef _WIN32
#define MS_WINDOWS       1
#define MS_WIN64         1
#define NT_THREADS       1
#define Py_ENABLE_SHARED 1 /* with the next one: symbols are imported from python3.dll */
#define HAVE_DECLSPEC_DLL
#else
#define HAVE_SSIZE_T     1
#define HAVE_UNISTD_H    1
#define HAVE_SYS_TIME_H  1
#define HAVE_PTHREAD_H   1
#define SIZEOF_PID_T     4
#define SIZEOF_PTHREAD_T 8
#endif

#endif
