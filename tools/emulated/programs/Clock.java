// Prints the time of the wall clock and of the monotonic clock, in seconds, for each line that it reads.
class Clock {
    public static void main(String[] arguments) throws Exception {
        for (int letter; (letter = System.in.read()) >= 0;) {
            if (letter != '\n') continue;
            System.out.println(System.currentTimeMillis() / 1000 + " " + System.nanoTime() / 1_000_000_000);
        }
    }
}
