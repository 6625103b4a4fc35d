// Prints the time of the wall clock and of the monotonic clock, in seconds, for each line that it reads.
#include <stdio.h>
#include <time.h>

int main(void) {
    struct timespec wall, monotonic;
    for (int letter; (letter = getchar()) != EOF;) {
        if (letter != '\n') continue;
        clock_gettime(CLOCK_REALTIME, &wall);
        clock_gettime(CLOCK_MONOTONIC, &monotonic);
        printf("%ld %ld\n", (long)wall.tv_sec, (long)monotonic.tv_sec);
        fflush(stdout);
    }
}
