/* What the files of the folder share. It gives nothing to the others: their functions are in tenon/shared.h. */
#ifndef TENON_SHARED_INTERNAL_H
#define TENON_SHARED_INTERNAL_H

#include "../tensor/internal.h"

enum { TENON__SHARED_ID_SIZE = 16 };

/* What the name of a shared tensor says: the process that holds it, its descriptor there, and the id of the memory. */
typedef struct tenon__shared_name {
    int process, file;
    unsigned char id[TENON__SHARED_ID_SIZE];
} tenon__shared_name;

/* TENON_EINVAL if it is not a name, TENON_EVERSION if a newer Tenon wrote it. */
tenon_status tenon__shared_name_read(const char *text, tenon__shared_name *out, const char *function, tenon_error *err);
/* Write at most TENON_SHARED_NAME_SIZE bytes. */
void tenon__shared_name_write(const tenon__shared_name *name, char *out);

#endif
