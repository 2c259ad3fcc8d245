/* A dependency. */
int helper(void);

int helper(void)
{
    return ANSWER;
}
