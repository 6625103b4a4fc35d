# Answers for a skewed clock on x86-64: this replaces three functions of a process's vDSO. With data.s in front, it is
# copied, as it stands, into the zeros behind the vDSO's code, so it refers to nothing but itself.
#
# Nothing here can trap, whatever the data says: no division can overflow, no address comes from the data.

        .globl  fencepost_clock_gettime, fencepost_clock_gettimeofday, fencepost_clock_time
        .hidden fencepost_clock_gettime, fencepost_clock_gettimeofday, fencepost_clock_time

# int clock_gettime(clockid_t edi, struct timespec *rsi)
fencepost_clock_gettime:
        mov     eax, 228
        syscall                         # clobbers rcx and r11, which a caller expects of any function
        test    eax, eax
        jnz     2f
        cmp     edi, 11                 # clocks of processes and devices have larger or negative ids
        ja      2f
        imul    rax, [rsi], 1000000000
        add     rax, [rsi + 8]
        shl     edi, 4
        lea     r8, [rip + fencepost_clock_generation]
1:      movzx   ecx, byte ptr [r8]
        mov     r9d, ecx
        and     r9d, 1
        imul    r9d, r9d, 192
        add     r9d, edi
        mov     r10, [r8 + r9 + 16]
        mov     r11, [r8 + r9 + 24]
        cmp     cl, [r8]                # a thread that slept here may have seen its slot rewritten
        jne     1b
        mov     r9, rax
        imul    r11
        shrd    rax, rdx, 32
        add     rax, r9
        add     rax, r10
        xor     edx, edx
        mov     ecx, 1000000000
        div     rcx                     # unsigned, of a single word: the quotient always fits
        mov     [rsi], rax
        mov     [rsi + 8], rdx
        xor     eax, eax
2:      ret

# int gettimeofday(struct timeval *rdi, struct timezone *rsi), either of which may be null
fencepost_clock_gettimeofday:
        test    rsi, rsi
        jz      1f
        mov     r8, rdi
        xor     edi, edi
        mov     eax, 96
        syscall
        mov     rdi, r8
1:      xor     eax, eax
        mov     rsi, rdi
        test    rsi, rsi
        jz      2f
        xor     edi, edi                # CLOCK_REALTIME; a timespec has the shape of a timeval
        call    fencepost_clock_gettime
        test    eax, eax
        jnz     2f
        mov     rax, [rsi + 8]
        xor     edx, edx
        mov     ecx, 1000
        div     rcx
        mov     [rsi + 8], rax
        xor     eax, eax
2:      ret

# time_t time(time_t *rdi), which may be null
fencepost_clock_time:
        sub     rsp, 24
        mov     [rsp + 16], rdi
        mov     rsi, rsp
        mov     edi, 5                  # CLOCK_REALTIME_COARSE: never ahead of what clock_gettime said before
        call    fencepost_clock_gettime
        mov     rax, [rsp]
        mov     rdi, [rsp + 16]
        add     rsp, 24
        test    rdi, rdi
        jz      1f
        mov     [rdi], rax
1:      ret
fencepost_clock_stub_end:
