/* What Redis asks of jemalloc beyond malloc and free, for when there is none: see faketime.rs. */
typedef unsigned long size_t;

/* Fails: there is nothing to be asked or set. */
int mallctl(const char *name, void *old, size_t *old_length, void *new_value, size_t new_length)
{
    (void)name, (void)old, (void)old_length, (void)new_value, (void)new_length;
    return 2;
}

size_t nallocx(size_t size, int flags)
{
    (void)flags;
    return size;
}

void malloc_stats_print(void (*write)(void *, const char *), void *to, const char *options)
{
    (void)write, (void)to, (void)options;
}
