/* The data in front of every architecture's stub, whose layout stub.rs knows: they say what clocks show.
 *
 * Each clock id has an entry (constant, rate), and shows   true + constant + (true * rate >> 32)   in nanoseconds,
 * modulo 2^64: a jump is a constant, a drift a rate, and a frozen clock has rate -2^32 and shows its constant. */

        /* Seen by other objects of this program, since the compiler may put what refers to them into another. */
        .globl  fencepost_clock_stub, fencepost_clock_stub_end
        .hidden fencepost_clock_stub, fencepost_clock_stub_end

        .balign 16
fencepost_clock_stub:
        .ascii  "fencepost-clock1"
        .fill   48, 1, 0                /* three times: offset of the place of a jump, the eight bytes it stands in */
fencepost_clock_generation:             /* its lowest bit says which slot holds */
        .fill   16, 1, 0
        .fill   384, 1, 0               /* two slots of twelve entries of two words */

