/* A program whose clocks are broken: many threads that read them without a pause, under a timer's signals, and one
 * that answers questions, a line each. Aborts on a time that no clock can show. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef BUILD_INFO_OF_GO
/* By which a Go program is recognised. Unlike one that calls the vDSO, this program does not keep its address. */
__attribute__((aligned(16), used)) static char build_info[32] = "\xff Go buildinf:";
#endif

static long long clock_ns(clockid_t id)
{
    struct timespec now;
    if (clock_gettime(id, &now) != 0 || now.tv_nsec < 0 || now.tv_nsec >= 1000000000 || now.tv_sec < 0) abort();
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *hammer(void *unused)
{
    for (;;) {
        struct timeval tv;
        struct timezone zone;
        clock_ns(CLOCK_REALTIME);
        clock_ns(CLOCK_MONOTONIC);
        clock_ns(CLOCK_THREAD_CPUTIME_ID);
        if (gettimeofday(&tv, &zone) != 0 || tv.tv_usec < 0 || tv.tv_usec >= 1000000) abort();
        if (time(NULL) <= 0) abort();
    }
    return unused;
}

static void on_signal(int number)
{
    (void)number;
    clock_ns(CLOCK_MONOTONIC);
}

/* wall, monotonic, coarse wall, raw monotonic, boot, TAI, gettimeofday, time, processor time; all in ns */
static void show(void)
{
    struct timeval tv;
    time_t seconds;
    long long wall = clock_ns(CLOCK_REALTIME), monotonic = clock_ns(CLOCK_MONOTONIC);
    gettimeofday(&tv, NULL);
    if (time(&seconds) != seconds && time(&seconds) != seconds) abort();
    printf("%lld %lld %lld %lld %lld %lld %lld %lld %lld\n", wall, monotonic, clock_ns(CLOCK_REALTIME_COARSE),
           clock_ns(CLOCK_MONOTONIC_RAW), clock_ns(CLOCK_BOOTTIME), clock_ns(CLOCK_TAI),
           (tv.tv_sec * 1000000LL + tv.tv_usec) * 1000, seconds * 1000000000LL, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    fflush(stdout);
}

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 0;
    char line[64];
    signal(SIGALRM, on_signal);
    if (threads > 0) {
        struct itimerval often = {{0, 1000}, {0, 1000}};
        setitimer(ITIMER_REAL, &often, NULL);
    }
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, hammer, NULL) != 0) abort();
    }
    puts("0"); /* ready */
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "show\n") == 0) {
            show();
        } else if (strcmp(line, "fork\n") == 0) {
            if (fork() == 0) {
                show();
                _exit(0);
            }
            wait(NULL);
        } else if (strcmp(line, "exec\n") == 0) {
            execl("/proc/self/exe", arguments[0], NULL);
            abort();
        } else if (strcmp(line, "sleep\n") == 0) {
            struct timespec second = {1, 0};
            printf("%d\n", nanosleep(&second, NULL));
            fflush(stdout);
        }
    }
    return 0;
}
