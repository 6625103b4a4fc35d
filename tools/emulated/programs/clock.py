# Prints the time of the wall clock and of the monotonic clock, in seconds, for each line that it reads.
import sys
import time

for _ in sys.stdin:
    print(int(time.time()), int(time.monotonic()), flush=True)
