// Prints the time of the wall clock and of the monotonic clock, in seconds, for each line that it reads.
process.stdin.on("data", () => console.log(Math.floor(Date.now() / 1000), Number(process.hrtime.bigint() / 1000000000n)));
