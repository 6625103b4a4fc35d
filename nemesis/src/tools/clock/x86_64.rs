//! x86-64: its registers, the functions of its vDSO, and the code that replaces them (`x86_64.s`).

use super::stub;
use nix::libc;

std::arch::global_asm!(
    ".pushsection .rodata",
    include_str!("data.s"),
    include_str!("x86_64.s"),
    ".popsection"
);

unsafe extern "C" {
    static fencepost_clock_gettime: u8;
    static fencepost_clock_gettimeofday: u8;
    static fencepost_clock_time: u8;
}

/// The replaced functions of the vDSO, the one that reads any clock first, and each replacement's offset.
pub fn replacements() -> Vec<(&'static str, usize)> {
    let offset = |code: *const u8| code as usize - stub::begin();
    vec![
        ("__vdso_clock_gettime", offset(&raw const fencepost_clock_gettime)),
        ("__vdso_gettimeofday", offset(&raw const fencepost_clock_gettimeofday)),
        ("__vdso_time", offset(&raw const fencepost_clock_time)),
    ]
}

/// Where in a function the jump is put, and where it leads: offsets in the vDSO.
pub fn detour(_image: &[u8], entry: usize, to: usize) -> (usize, usize) {
    (entry, to)
}

pub fn jump(from: usize, to: usize) -> [u8; 5] {
    let [a, b, c, d] = (to as i32 - from as i32 - 5).to_le_bytes();
    [0xe9, a, b, c, d]
}

/// `syscall`, and what its address is a multiple of.
pub const SYSTEM_CALL: ([u8; 2], usize) = ([0x0f, 0x05], 1);

const WAITING: [i64; 12] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_rt_sigtimedwait,
];

/// What the processor saves of vectors, by the kernel's number for it, and more room than that takes.
pub const VECTORS: (usize, usize) = (0x202, 64 << 10);

#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Registers(libc::user_regs_struct);

impl Registers {
    pub fn at(&self) -> u64 {
        self.0.rip
    }

    pub fn stack(&self) -> u64 {
        self.0.rsp
    }

    pub fn result(&self) -> i64 {
        self.0.rax as i64
    }

    /// These registers, as if the thread were about to carry out a system call by the instruction at `gate`.
    pub fn system_call(&self, gate: u64, number: i64, [rdi, rsi, rdx, r10, r8, r9]: [u64; 6]) -> Registers {
        Registers(libc::user_regs_struct {
            rax: number as u64,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.moved(gate)
        })
    }

    /// These registers at a call of this function that returns to 0; zeros around `stack`, a multiple of 16.
    pub fn call(&self, function: u64, [rdi, rsi]: [u64; 2], stack: u64) -> Registers {
        // As at the entry of a function, 8 beyond a multiple of 16. The word there is the return address.
        Registers(libc::user_regs_struct { rdi, rsi, rsp: stack + 8, ..self.moved(function) })
    }

    fn moved(&self, rip: u64) -> libc::user_regs_struct {
        const TRAP_AND_DIRECTION: u64 = 0x500;
        let eflags = self.0.eflags & !TRAP_AND_DIRECTION;
        // A thread that was stopped inside a system call has its number in `orig_rax`. While that is -1 the
        // kernel leaves `rax` alone; once it is put back, the call is restarted or fails with EINTR.
        libc::user_regs_struct { rip, eflags, orig_rax: u64::MAX, ..self.0 }
    }

    pub fn to_resume(self, _slept: bool, _next: &[u8]) -> Registers {
        self
    }

    /// Whether the thread waits in a system call for something to happen, and holds no lock of libc's.
    pub fn waits(&self, _slept: bool) -> bool {
        let call = self.0.orig_rax as i64;
        WAITING.contains(&call) || call == libc::SYS_futex && super::threads::waits_for_condition(self.0.rsi)
    }
}
