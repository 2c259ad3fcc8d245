/* Files that are looked at before the loader sees them. The library at hand is the cmocka that runs this. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "check.h"

#include <stdlib.h>

#ifdef __ELF__

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char *library;
static size_t library_size;
/* What is mapped ends here: the section headers behind it are for debuggers. */
static size_t mapped_end;

#define SAYS(what, bytes, size)                                                                                        \
    FAILS_SAYING(TENON_EINVAL, "tenon_library_check(): it is not a shared library that can be loaded here: " what,     \
                 tenon_library_check(bytes, size, &err))
#define CUT     "the file is truncated; build it again"
#define DAMAGED "its headers are damaged; build it again"

static unsigned char *read_whole(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    size_t room = 1 << 16, got;
    unsigned char *bytes = malloc(room);
    assert_non_null(bytes);
    *size = 0;
    while ((got = fread(bytes + *size, 1, room - *size, file)) > 0) {
        *size += got;
        if (*size == room) {
            bytes = realloc(bytes, room *= 2);
            assert_non_null(bytes);
        }
    }
    fclose(file);
    return bytes;
}

static int find_cmocka(struct dl_phdr_info *info, size_t size, void *path)
{
    (void)size;
    if (!strstr(info->dlpi_name, "cmocka"))
        return 0;
    snprintf(path, 1024, "%s", info->dlpi_name);
    return 1;
}

static Elf64_Phdr segment(const unsigned char *bytes, int i)
{
    Elf64_Ehdr header;
    Elf64_Phdr found;
    memcpy(&header, bytes, sizeof header);
    memcpy(&found, bytes + header.e_phoff + (size_t)i * sizeof found, sizeof found);
    return found;
}

static int segments(const unsigned char *bytes)
{
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof header);
    return header.e_phnum;
}

static int read_library(void **state)
{
    (void)state;
    char path[1024] = "";
    if (!dl_iterate_phdr(find_cmocka, path) || !(library = read_whole(path, &library_size)))
        return 1;
    mapped_end = sizeof(Elf64_Ehdr) + (size_t)segments(library) * sizeof(Elf64_Phdr);
    for (int i = 0; i < segments(library); i++) {
        Elf64_Phdr s = segment(library, i);
        if ((s.p_type == PT_LOAD || s.p_type == PT_DYNAMIC) && s.p_offset + s.p_filesz > mapped_end)
            mapped_end = s.p_offset + s.p_filesz;
    }
    return mapped_end > library_size;
}

static int free_library(void **state)
{
    (void)state;
    free(library);
    return 0;
}

static void test_a_library(void **state)
{
    (void)state;
    OK(tenon_library_check(library, library_size, &err));
    assert_int_equal(tenon_library_check(library, library_size, NULL), TENON_OK);
}

static void test_cut_off_anywhere(void **state)
{
    (void)state;
    for (size_t size = 1; size <= library_size; size++) {
        /* A copy, so that a sanitizer sees a read behind its end; of the long ones not each. */
        bool copied = size < 4096 || size % 509 == 0;
        unsigned char *bytes = copied ? malloc(size) : library;
        assert_non_null(bytes);
        if (copied)
            memcpy(bytes, library, size);
        if (size < 4)
            SAYS("it is not an ELF file", bytes, size);
        else if (size < mapped_end)
            SAYS(CUT, bytes, size);
        else
            OK(tenon_library_check(bytes, size, &err));
        if (copied)
            free(bytes);
    }
}

/* Opens the file in a process of its own: 0, or the signal that it died of. */
static int open_elsewhere(const unsigned char *bytes, size_t size)
{
    char path[] = "/tmp/tenon_library_XXXXXX";
    int file = mkstemp(path), status = 0;
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    close(file);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    unlink(path);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_what_passes_can_be_opened(void **state)
{
    (void)state;
    for (size_t size = mapped_end; size <= library_size && size < mapped_end + 3; size++)
        assert_int_equal(open_elsewhere(library, size), 0);
}

/* The library with one number in its header changed. */
#define WITH(at, type, number)                                                                                         \
    (memcpy(changed, library, library_size), memcpy(changed + (at), &(type){number}, sizeof(type)), changed)

static void test_other_kinds_of_files(void **state)
{
    (void)state;
    unsigned char *changed = malloc(library_size);
    assert_non_null(changed);
    SAYS("it is for another kind of machine (32 bits, or big-endian)", WITH(EI_CLASS, uint8_t, ELFCLASS32),
         library_size);
    SAYS("it is for another kind of machine (32 bits, or big-endian)", WITH(EI_CLASS, uint8_t, 0), library_size);
    SAYS("it is for another kind of machine (32 bits, or big-endian)", WITH(EI_DATA, uint8_t, ELFDATA2MSB),
         library_size);
    SAYS("it is for another kind of machine; build it for this one",
         WITH(offsetof(Elf64_Ehdr, e_machine), uint16_t, EM_S390), library_size);
    static const uint16_t types[] = {ET_NONE, ET_REL, ET_EXEC, ET_CORE, 0xffff};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        SAYS("it is an object file or a program; link it with -shared -fPIC",
             WITH(offsetof(Elf64_Ehdr, e_type), uint16_t, types[i]), library_size);
    for (size_t i = 0; i < 4; i++)
        SAYS("it is not an ELF file", WITH(i, uint8_t, '!'), library_size);
    free(changed);
}

static void test_headers_that_lie(void **state)
{
    (void)state;
    unsigned char *changed = malloc(library_size);
    assert_non_null(changed);
    const size_t phoff = offsetof(Elf64_Ehdr, e_phoff), phnum = offsetof(Elf64_Ehdr, e_phnum);
    SAYS(CUT, WITH(phoff, uint64_t, library_size), library_size);
    SAYS(CUT, WITH(phoff, uint64_t, library_size - sizeof(Elf64_Phdr)), library_size);
    SAYS(CUT, WITH(phoff, uint64_t, UINT64_MAX), library_size);
    SAYS(CUT, WITH(phoff, uint64_t, UINT64_MAX - 55), library_size);
    SAYS(CUT, WITH(phnum, uint16_t, 0), library_size);
    SAYS(CUT, WITH(phnum, uint16_t, 0xffff), library_size);
    SAYS(CUT, WITH(offsetof(Elf64_Ehdr, e_phentsize), uint16_t, 55), library_size);
    SAYS(CUT, WITH(offsetof(Elf64_Ehdr, e_phentsize), uint16_t, 0), library_size);
    for (int i = 0; i < segments(library); i++) {
        size_t at = sizeof(Elf64_Ehdr) + (size_t)i * sizeof(Elf64_Phdr);
        Elf64_Phdr s = segment(library, i);
        if (s.p_type != PT_LOAD && s.p_type != PT_DYNAMIC)
            continue;
        SAYS(CUT, WITH(at + offsetof(Elf64_Phdr, p_offset), uint64_t, UINT64_MAX), library_size);
        SAYS(CUT, WITH(at + offsetof(Elf64_Phdr, p_offset), uint64_t, library_size + 1), library_size);
        SAYS(CUT, WITH(at + offsetof(Elf64_Phdr, p_filesz), uint64_t, UINT64_MAX), library_size);
        SAYS(CUT, WITH(at + offsetof(Elf64_Phdr, p_filesz), uint64_t, library_size - s.p_offset + 1), library_size);
        if (s.p_type == PT_DYNAMIC)
            continue;
        /* The loader trusts the rest as much. */
        SAYS(DAMAGED, WITH(at + offsetof(Elf64_Phdr, p_filesz), uint64_t, s.p_memsz + 1), library_size);
        SAYS(DAMAGED, WITH(at + offsetof(Elf64_Phdr, p_vaddr), uint64_t, s.p_vaddr + 8), library_size);
        SAYS(DAMAGED, WITH(at + offsetof(Elf64_Phdr, p_vaddr), uint64_t, (uint64_t)1 << 60), library_size);
        SAYS(DAMAGED, WITH(at + offsetof(Elf64_Phdr, p_memsz), uint64_t, UINT64_MAX), library_size);
        OK(tenon_library_check(WITH(at + offsetof(Elf64_Phdr, p_align), uint64_t, 3 << 12), library_size, &err));
    }
    for (int i = 0; i < segments(library); i++) {
        size_t at = sizeof(Elf64_Ehdr) + (size_t)i * sizeof(Elf64_Phdr);
        Elf64_Phdr s = segment(library, i);
        if (s.p_type == PT_DYNAMIC || s.p_type == PT_GNU_RELRO)
            SAYS(DAMAGED, WITH(at + offsetof(Elf64_Phdr, p_vaddr), uint64_t, (uint64_t)1 << 40), library_size);
    }
    free(changed);
}

/* The library with the header that the loader reads least, PT_GNU_STACK, replaced. */
static unsigned char *with_segment(Elf64_Phdr added)
{
    unsigned char *changed = malloc(library_size);
    assert_non_null(changed);
    memcpy(changed, library, library_size);
    for (int i = 0; i < segments(library); i++)
        if (segment(library, i).p_type == PT_GNU_STACK)
            memcpy(changed + sizeof(Elf64_Ehdr) + (size_t)i * sizeof added, &added, sizeof added);
    return changed;
}

#define SEGMENT_PASSES(...)                                                                                            \
    do {                                                                                                               \
        unsigned char *changed = with_segment((Elf64_Phdr){__VA_ARGS__});                                              \
        OK(tenon_library_check(changed, library_size, &err));                                                          \
        free(changed);                                                                                                 \
    } while (0)
#define SEGMENT_IS_DAMAGED(...)                                                                                        \
    do {                                                                                                               \
        unsigned char *changed = with_segment((Elf64_Phdr){__VA_ARGS__});                                              \
        SAYS(DAMAGED, changed, library_size);                                                                          \
        free(changed);                                                                                                 \
    } while (0)

/* Zeros are not in the file, and their addresses are not mapped. */
static void test_thread_local_zeros(void **state)
{
    (void)state;
    SEGMENT_PASSES(.p_type = PT_TLS, .p_vaddr = library_size, .p_memsz = 1 << 30, .p_align = 16);
    SEGMENT_PASSES(.p_type = PT_TLS, .p_vaddr = 64, .p_filesz = 8, .p_memsz = 1 << 30, .p_align = 16);
    SEGMENT_PASSES(.p_type = PT_TLS, .p_vaddr = 64, .p_filesz = 8, .p_memsz = 8);
    SEGMENT_IS_DAMAGED(.p_type = PT_TLS, .p_vaddr = (uint64_t)1 << 40, .p_filesz = 8, .p_memsz = 8);
    SEGMENT_IS_DAMAGED(.p_type = PT_TLS, .p_vaddr = (uint64_t)1 << 40, .p_filesz = 1, .p_memsz = 1);
}

/* The loader copies p_filesz bytes into a block of p_memsz bytes for each thread. */
static void test_thread_local_memory_that_is_too_short(void **state)
{
    (void)state;
    SEGMENT_IS_DAMAGED(.p_type = PT_TLS, .p_vaddr = 64, .p_filesz = 8, .p_memsz = 7);
    SEGMENT_IS_DAMAGED(.p_type = PT_TLS, .p_vaddr = 64, .p_filesz = 8);
    SEGMENT_IS_DAMAGED(.p_type = PT_TLS, .p_memsz = UINT64_MAX);
}

/* Linkers round the end up to that of a page. */
static void test_the_end_of_read_only_memory(void **state)
{
    (void)state;
    Elf64_Phdr last = {0};
    for (int i = 0; i < segments(library); i++)
        if (segment(library, i).p_type == PT_LOAD)
            last = segment(library, i);
    uint64_t page = last.p_align > 4096 ? last.p_align : 4096;
    uint64_t end = (last.p_vaddr + last.p_memsz + page - 1) / page * page;
    SEGMENT_PASSES(.p_type = PT_GNU_RELRO, .p_vaddr = last.p_vaddr, .p_memsz = end - last.p_vaddr);
    SEGMENT_IS_DAMAGED(.p_type = PT_GNU_RELRO, .p_vaddr = last.p_vaddr, .p_memsz = end - last.p_vaddr + 1);
    SEGMENT_IS_DAMAGED(.p_type = PT_GNU_RELRO, .p_vaddr = last.p_vaddr - 1, .p_memsz = end - last.p_vaddr);
}

static void test_the_address_of_the_headers(void **state)
{
    (void)state;
    uint64_t length = (uint64_t)segments(library) * sizeof(Elf64_Phdr);
    SEGMENT_PASSES(.p_type = PT_PHDR, .p_offset = 64, .p_vaddr = 64, .p_filesz = length, .p_memsz = length);
    SEGMENT_IS_DAMAGED(.p_type = PT_PHDR, .p_offset = 64, .p_vaddr = 72, .p_filesz = length, .p_memsz = length);
    SEGMENT_IS_DAMAGED(.p_type = PT_PHDR, .p_offset = 64, .p_vaddr = (uint64_t)1 << 60);
}

/* They belong to another machine or to a later loader. */
static void test_segments_that_are_not_read(void **state)
{
    (void)state;
    static const uint32_t types[] = {PT_NULL, PT_INTERP, PT_SHLIB, PT_LOOS, PT_SUNWBSS, PT_LOPROC + 3, PT_HIPROC};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        SEGMENT_PASSES(.p_type = types[i], .p_offset = UINT64_MAX, .p_vaddr = (uint64_t)1 << 60, .p_filesz = 80,
                       .p_memsz = 80);
}

/* A mapped segment whose type was changed leaves a gap, to which the rest of the library refers. */
static void test_a_mapped_segment_of_another_type(void **state)
{
    (void)state;
    static const uint32_t types[] = {PT_NULL, PT_INTERP, PT_SHLIB, PT_LOOS, PT_GNU_STACK, PT_LOPROC + 1};
    unsigned char *changed = malloc(library_size);
    assert_non_null(changed);
    for (int i = 0; i < segments(library); i++)
        for (size_t k = 0; k < sizeof types / sizeof *types && segment(library, i).p_type == PT_LOAD; k++)
            SAYS(DAMAGED, WITH(sizeof(Elf64_Ehdr) + (size_t)i * sizeof(Elf64_Phdr), uint32_t, types[k]), library_size);
    free(changed);
}

/* -------------------------------------------------------------------------------------------- libraries of the system */

/* Whether dlopen takes the file, in a process of its own. */
static bool opens_elsewhere(const char *path)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(dlopen(path, RTLD_LAZY | RTLD_LOCAL) ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

/* Libraries that dlopen takes are never refused: those beside the C library, up to a limit. */
static void test_libraries_of_the_system(void **state)
{
    (void)state;
    enum { MOST_LIBRARIES = 400, MOST_BYTES = 64 << 20 };
    Dl_info libc;
    char path[2048];
    int checked = 0, refused = 0;
    assert_int_not_equal(dladdr((void *)(uintptr_t)&malloc, &libc), 0);
    int folder = (int)(strrchr(libc.dli_fname, '/') - libc.dli_fname);
    snprintf(path, sizeof path, "%.*s", folder, libc.dli_fname);
    DIR *opened = opendir(path);
    assert_non_null(opened);
    for (struct dirent *entry; checked < MOST_LIBRARIES && (entry = readdir(opened));) {
        struct stat about;
        size_t size;
        snprintf(path, sizeof path, "%.*s/%.500s", folder, libc.dli_fname, entry->d_name);
        if (!strstr(path, ".so") || lstat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > MOST_BYTES)
            continue;
        unsigned char *bytes = read_whole(path, &size);
        if (!bytes)
            continue;
        checked++;
        tenon_status status = tenon_library_check(bytes, size, &err);
        if (status && opens_elsewhere(path))
            fail_msg("%s: %s", path, err.message);
        refused += status != TENON_OK;
        free(bytes);
    }
    closedir(opened);
    assert_true(checked > refused); /* some text files have such names */
}

static void test_nothing_to_load(void **state)
{
    (void)state;
    static const uint32_t hidden[] = {PT_LOAD, PT_DYNAMIC};
    for (size_t k = 0; k < 2; k++) {
        unsigned char *changed = malloc(library_size);
        assert_non_null(changed);
        memcpy(changed, library, library_size);
        for (int i = 0; i < segments(library); i++)
            if (segment(library, i).p_type == hidden[k])
                memcpy(changed + sizeof(Elf64_Ehdr) + (size_t)i * sizeof(Elf64_Phdr), &(uint32_t){PT_NOTE}, 4);
        if (k == 0) /* what the loader reads is not mapped then */
            SAYS(DAMAGED, changed, library_size);
        else
            SAYS("it has nothing to load; link it with -shared", changed, library_size);
        free(changed);
    }
}

static void test_no_library_at_all(void **state)
{
    (void)state;
    const char *text = "#include <tenon/function.h>\nand so on, for longer than the header of an ELF file is long\n";
    SAYS("it is not an ELF file", text, strlen(text));
    SAYS("it is not an ELF file", "\177EL", 3);
    SAYS(CUT, "\177ELF", 4);
    SAYS("the file is empty", "", 0);
    SAYS("the file is empty", NULL, 0);
    SAYS("the file is empty", NULL, 5);
    unsigned char zeros[64] = {0};
    SAYS("it is not an ELF file", zeros, sizeof zeros);
}

/* Never more than a message, whatever the headers say. */
static void test_any_byte_of_the_headers(void **state)
{
    (void)state;
    unsigned char *changed = malloc(library_size);
    assert_non_null(changed);
    memcpy(changed, library, library_size);
    size_t headers = sizeof(Elf64_Ehdr) + (size_t)segments(library) * sizeof(Elf64_Phdr);
    for (size_t at = 0; at < headers; at++) {
        for (unsigned value = 0; value < 256; value++) {
            changed[at] = (unsigned char)value;
            tenon_status status = tenon_library_check(changed, library_size, NULL);
            assert_true(status == TENON_OK || status == TENON_EINVAL);
        }
        changed[at] = library[at];
    }
    free(changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_library),
        cmocka_unit_test(test_cut_off_anywhere),
        cmocka_unit_test(test_what_passes_can_be_opened),
        cmocka_unit_test(test_other_kinds_of_files),
        cmocka_unit_test(test_headers_that_lie),
        cmocka_unit_test(test_thread_local_zeros),
        cmocka_unit_test(test_thread_local_memory_that_is_too_short),
        cmocka_unit_test(test_the_end_of_read_only_memory),
        cmocka_unit_test(test_the_address_of_the_headers),
        cmocka_unit_test(test_segments_that_are_not_read),
        cmocka_unit_test(test_a_mapped_segment_of_another_type),
        cmocka_unit_test(test_libraries_of_the_system),
        cmocka_unit_test(test_nothing_to_load),
        cmocka_unit_test(test_no_library_at_all),
        cmocka_unit_test(test_any_byte_of_the_headers),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, read_library, free_library);
}

#else

int main(void)
{
    return tenon_library_check("anything", 8, NULL);
}

#endif
