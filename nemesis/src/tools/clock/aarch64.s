// Answers for a skewed clock on ARM64: this replaces two functions of a process's vDSO. With data.s in front, it is
// copied, as it stands, into the zeros behind the vDSO's code, so it refers to nothing but itself.
//
// A function whose first instruction signs its return address keeps that instruction, since it is a landing pad as
// well; the jump behind it leads to the instruction in front of the replacement, which takes the signature off again.
// Nothing here can trap, whatever the data says: no address comes from the data, and only registers are used that
// any function may change.

        .globl  fencepost_clock_gettime, fencepost_clock_gettimeofday
        .hidden fencepost_clock_gettime, fencepost_clock_gettimeofday

        hint    #29                     // autiasp
// int clock_gettime(clockid_t w0, struct timespec *x1)
fencepost_clock_gettime:
        mov     w9, w0
        mov     x8, #113
        svc     #0
        cbnz    w0, 2f
        cmp     w9, #11                 // clocks of processes and devices have larger or negative ids
        b.hi    2f
        ldp     x2, x3, [x1]
        mov     x4, #0xca00             // 1000000000
        movk    x4, #0x3b9a, lsl #16
        madd    x2, x2, x4, x3
        adr     x5, fencepost_clock_generation
        add     x6, x5, w9, uxtw #4
        mov     x11, #192
1:      ldarb   w7, [x5]
        and     x10, x7, #1
        madd    x10, x10, x11, x6
        ldp     x12, x13, [x10, #16]
        dmb     ishld
        ldrb    w14, [x5]
        cmp     w7, w14                 // a thread that slept here may have seen its slot rewritten
        b.ne    1b
        mul     x14, x2, x13
        smulh   x15, x2, x13
        extr    x14, x15, x14, #32
        add     x2, x2, x14
        add     x2, x2, x12
        udiv    x3, x2, x4
        msub    x5, x3, x4, x2
        stp     x3, x5, [x1]
2:      ret

        hint    #29                     // autiasp
// int gettimeofday(struct timeval *x0, struct timezone *x1), either of which may be null
fencepost_clock_gettimeofday:
        mov     x17, x30
        mov     x16, x0
        cbz     x1, 1f
        mov     x0, xzr
        mov     x8, #169
        svc     #0
1:      mov     w0, wzr                 // CLOCK_REALTIME; a timespec has the shape of a timeval
        cbz     x16, 2f
        mov     x1, x16
        bl      fencepost_clock_gettime
        cbnz    w0, 2f
        ldr     x2, [x16, #8]
        mov     x3, #1000
        udiv    x2, x2, x3
        str     x2, [x16, #8]
2:      ret     x17
fencepost_clock_stub_end:
