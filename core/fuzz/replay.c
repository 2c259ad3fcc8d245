/* Runs a fuzz target on saved inputs, for compilers without libFuzzer: replay FILE|FOLDER... */
#define _POSIX_C_SOURCE 200809L /* opendir, stat */

#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

static int replayed;

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    size_t size = 0, room = 4096;
    uint8_t *data = malloc(room);
    FUZZ_CHECK(data);
    for (size_t got; (got = fread(data + size, 1, room - size, file)) > 0;) {
        size += got;
        if (size == room) {
            data = realloc(data, room *= 2);
            FUZZ_CHECK(data);
        }
    }
    fclose(file);
    /* A copy of the exact length, so that a sanitizer detects a read past the end. */
    uint8_t *exact = malloc(size ? size : 1);
    FUZZ_CHECK(exact);
    memcpy(exact, data, size);
    free(data);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    replayed++;
}

static void replay(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        exit(2);
    }
    if (!S_ISDIR(info.st_mode)) {
        replay_file(path);
        return;
    }
    DIR *folder = opendir(path);
    if (!folder) {
        perror(path);
        exit(2);
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        size_t room = strlen(path) + strlen(entry->d_name) + 2;
        char *child = malloc(room);
        FUZZ_CHECK(child);
        snprintf(child, room, "%s/%s", path, entry->d_name);
        replay(child);
        free(child);
    }
    closedir(folder);
}

int main(int argc, char **argv)
{
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%d inputs replayed\n", replayed);
    return replayed > 0 || argc < 2 ? 0 : 1;
}
