/* What Redis and Valkey ask of jemalloc beyond malloc and free, for when there is none: see faketime.rs. In words of the
   allocator of libc. Signatures and flags are those of jemalloc 5's manual. */
typedef unsigned long size_t;

extern void *malloc(size_t size);
extern void *realloc(void *old, size_t size);
extern void free(void *old);
extern int posix_memalign(void **to, size_t alignment, size_t size);
extern size_t malloc_usable_size(void *of);
extern void *memset(void *to, int byte, size_t size);
extern void *memcpy(void *to, const void *from, size_t size);

/* The low six bits are the logarithm of the alignment. Caches and arenas, in the high bits, are not there. */
#define ALIGNMENT(flags) ((size_t)1 << ((flags) & 0x3f))
#define IS_ZERO(flags) (((flags) & 0x40) != 0)
/* What malloc gives anyway. */
#define USUAL_ALIGNMENT 16

void *mallocx(size_t size, int flags)
{
    void *made = 0;
    if (ALIGNMENT(flags) <= USUAL_ALIGNMENT)
        made = malloc(size);
    else if (posix_memalign(&made, ALIGNMENT(flags), size) != 0)
        return 0;
    if (made && IS_ZERO(flags))
        memset(made, 0, malloc_usable_size(made));
    return made;
}

void *rallocx(void *old, size_t size, int flags)
{
    size_t before = malloc_usable_size(old);
    void *made;
    if (ALIGNMENT(flags) <= USUAL_ALIGNMENT) {
        made = realloc(old, size);
    } else {
        made = mallocx(size, flags & 0x3f);
        if (made) {
            memcpy(made, old, before < size ? before : size);
            free(old);
        }
    }
    if (made && IS_ZERO(flags) && malloc_usable_size(made) > before)
        memset((char *)made + before, 0, malloc_usable_size(made) - before);
    return made;
}

/* Stays as large as it is. */
size_t xallocx(void *of, size_t size, size_t extra, int flags)
{
    (void)size, (void)extra, (void)flags;
    return malloc_usable_size(of);
}

size_t sallocx(const void *of, int flags)
{
    (void)flags;
    return malloc_usable_size((void *)of);
}

void dallocx(void *old, int flags)
{
    (void)flags;
    free(old);
}

void sdallocx(void *old, size_t size, int flags)
{
    (void)size, (void)flags;
    free(old);
}

size_t nallocx(size_t size, int flags)
{
    (void)flags;
    return size;
}

static int begins(const char *text, const char *with)
{
    while (*with && *text == *with)
        text++, with++;
    return *with == 0;
}

/* Redis 8 and Valkey end where a question is not answered: how much is in use, and a number for a new arena or cache. Numbers of
   nothing, and zeros, are answers. Texts cannot be made up: these questions fail. */
int mallctl(const char *name, void *old, size_t *old_length, void *new_value, size_t new_length)
{
    static unsigned made = 0;
    (void)new_value, (void)new_length;
    if (begins(name, "version") || begins(name, "config.") || begins(name, "opt."))
        return 2;
    if (!old || !old_length)
        return 0;
    memset(old, 0, *old_length);
    if ((begins(name, "arenas.create") || begins(name, "tcache.create")) && *old_length == sizeof made)
        *(unsigned *)old = ++made;
    return 0;
}

int mallctlnametomib(const char *name, size_t *mib, size_t *length)
{
    (void)name, (void)mib, (void)length;
    return 2;
}

int mallctlbymib(const size_t *mib, size_t length, void *old, size_t *old_length, void *new_value, size_t new_length)
{
    (void)mib, (void)length, (void)old, (void)old_length, (void)new_value, (void)new_length;
    return 2;
}

void malloc_stats_print(void (*write)(void *, const char *), void *to, const char *options)
{
    (void)write, (void)to, (void)options;
}
