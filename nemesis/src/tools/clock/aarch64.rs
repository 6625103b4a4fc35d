//! ARM64: its registers, the functions of its vDSO, and the code that replaces them (`aarch64.s`).

use super::stub;
use nix::libc;

std::arch::global_asm!(
    ".pushsection .rodata",
    include_str!("data.s"),
    include_str!("aarch64.s"),
    ".popsection"
);

unsafe extern "C" {
    static fencepost_clock_gettime: u8;
    static fencepost_clock_gettimeofday: u8;
}

/// The vDSO's replaced functions, the general one first, with offsets in the stub. libc makes `time` of them.
pub fn replacements() -> Vec<(&'static str, usize)> {
    let offset = |code: *const u8| code as usize - stub::begin();
    vec![
        ("__kernel_clock_gettime", offset(&raw const fencepost_clock_gettime)),
        ("__kernel_gettimeofday", offset(&raw const fencepost_clock_gettimeofday)),
    ]
}

const BTI_C: u32 = 0xd503_245f;
const PACIASP: u32 = 0xd503_233f;

/// Where in a function the jump is put, and where it leads: offsets in the vDSO. A first instruction that is
/// a landing pad stays: without it the processor refuses the call. One that signs the return address is a
/// landing pad, too; the instruction before the replacement undoes it.
pub fn detour(image: &[u8], entry: usize, to: usize) -> (usize, usize) {
    match instruction(&image[entry..]) {
        Some(BTI_C) => (entry + 4, to),
        Some(PACIASP) => (entry + 4, to - 4),
        _ => (entry, to),
    }
}

pub fn jump(from: usize, to: usize) -> [u8; 4] {
    let words = (to as i32 - from as i32) / 4;
    (0x1400_0000 | words as u32 & 0x03ff_ffff).to_le_bytes()
}

/// `svc #0`, and what its address is a multiple of.
pub const SYSTEM_CALL: ([u8; 4], usize) = (SVC.to_le_bytes(), 4);
const SVC: u32 = 0xd400_0001;

/// System calls in which threads wait. The last goes on with one of them that a stop has cut short.
const WAITING: [i64; 10] = [
    libc::SYS_epoll_pwait,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_restart_syscall,
];

/// The vector registers, by the kernel's number, and more room than they take. SVE is not kept nor touched.
pub const VECTORS: (usize, usize) = (2, 1 << 10);

#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Registers(libc::user_regs_struct);

impl Registers {
    pub fn at(&self) -> u64 {
        self.0.pc
    }

    pub fn stack(&self) -> u64 {
        self.0.sp
    }

    pub fn result(&self) -> i64 {
        self.0.regs[0] as i64
    }

    /// These registers, as if the thread were about to carry out a system call by the instruction at `gate`.
    pub fn system_call(&self, gate: u64, number: i64, arguments: [u64; 6]) -> Registers {
        let mut moved = self.moved(gate);
        moved.regs[..6].copy_from_slice(&arguments);
        moved.regs[8] = number as u64;
        Registers(moved)
    }

    /// These registers at a call of this function that returns to 0; zeros around `stack`, a multiple of 16.
    pub fn call(&self, function: u64, arguments: [u64; 2], stack: u64) -> Registers {
        let mut moved = self.moved(function);
        moved.regs[..2].copy_from_slice(&arguments);
        moved.regs[30] = 0;
        moved.sp = stack;
        Registers(moved)
    }

    fn moved(&self, pc: u64) -> libc::user_regs_struct {
        // After an indirect jump, only a landing pad is accepted as the next instruction.
        const AFTER_INDIRECT_JUMP: u64 = 0xc00;
        libc::user_regs_struct { pc, pstate: self.0.pstate & !AFTER_INDIRECT_JUMP, ..self.0 }
    }

    /// These registers, to be put back into a thread that ran other code. `slept`: it slept before it was
    /// stopped; `next`: its next instruction. The kernel has put a system call that the stop cut short back
    /// to its beginning; but a sleep must last only for the rest of its time, which the kernel knows.
    pub fn to_resume(self, slept: bool, next: &[u8]) -> Registers {
        let [_, how, _, time_limit, ..] = self.0.regs;
        let for_a_time = match self.0.regs[8] as i64 {
            libc::SYS_nanosleep => true,
            libc::SYS_clock_nanosleep => how & libc::TIMER_ABSTIME as u64 == 0,
            libc::SYS_futex => how & 0x7f == libc::FUTEX_WAIT as u64 && time_limit != 0,
            _ => false,
        };
        let mut registers = self.0;
        if slept && for_a_time && instruction(next) == Some(SVC) {
            registers.regs[8] = libc::SYS_restart_syscall as u64;
        }
        Registers(registers)
    }

    /// Whether the thread waits in a system call for something to happen, and holds no lock of libc's.
    pub fn waits(&self, slept: bool) -> bool {
        let call = self.0.regs[8] as i64;
        slept
            && (WAITING.contains(&call)
                || call == libc::SYS_futex && super::threads::waits_for_condition(self.0.regs[1]))
    }
}

fn instruction(code: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(code.get(..4)?.try_into().ok()?))
}
