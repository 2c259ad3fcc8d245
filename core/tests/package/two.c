/* Two copies of Tenon in one process count apart. */
#include <stdio.h>

int left_hold(void);
int left_drop(void);
int right_hold(void);
int right_drop(void);

int main(void)
{
    if (left_hold() != 1 || right_hold() != 1 || left_drop() != 0 || right_drop() != 0) {
        fprintf(stderr, "the copies share their counters\n");
        return 1;
    }
    printf("two copies\n");
    return 0;
}
