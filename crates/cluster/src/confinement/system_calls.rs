//! A filter of system calls: refuses what changes the machine or makes namespaces, and allows the rest.

use nix::errno::Errno;
use nix::libc::{self, sock_filter};
use std::io;

/// Refused with EPERM, as to a user without rights.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
];

/// What is refused as a kernel does that does not have it: programs then do without.
const MISSING: &[libc::c_long] =
    // A ring carries calls past this filter, and holds memory that no limit counts.
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_clone3];

/// Socket families of a node's network; others reach the machine (AF_VSOCK) or needless parts of the kernel.
const SOCKETS: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Flags of `clone` by which a process gets namespaces.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// The architecture for which the numbers above are right.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const FIRST_ARGUMENT_AT: u32 = 16;

/// Numbers from here on are of the architecture's other interface (x32).
const OTHER_INTERFACE: u32 = 0x4000_0000;

pub(super) fn filter() -> Vec<sock_filter> {
    // Programs of another architecture do not run: their calls have other numbers.
    let mut program =
        vec![load(ARCHITECTURE_AT), skip_if(libc::BPF_JEQ, ARCHITECTURE), refuse(Errno::ENOSYS)];
    program.push(load(NUMBER_AT));
    program.extend([skip_unless(libc::BPF_JGE, OTHER_INTERFACE), refuse(Errno::ENOSYS)]);
    for call in REFUSED {
        program.extend([skip_unless(libc::BPF_JEQ, number(*call)), refuse(Errno::EPERM)]);
    }
    // The flags of `clone3` are in memory, where a filter cannot look. Libraries use `clone` instead.
    for call in MISSING {
        program.extend([skip_unless(libc::BPF_JEQ, number(*call)), refuse(Errno::ENOSYS)]);
    }
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        let families: Vec<sock_filter> = SOCKETS
            .iter()
            .flat_map(|family| [skip_unless(libc::BPF_JEQ, family.cast_unsigned()), allow()])
            .collect();
        let past = u8::try_from(families.len() + 2).expect("a few families");
        program.push(sock_filter { jf: past, ..skip_unless(libc::BPF_JEQ, number(call)) });
        program.push(load(FIRST_ARGUMENT_AT));
        program.extend(families);
        program.push(refuse(Errno::EAFNOSUPPORT));
    }
    let to_the_end = sock_filter { jf: 3, ..skip_unless(libc::BPF_JEQ, number(libc::SYS_clone)) };
    program.extend([to_the_end, load(FIRST_ARGUMENT_AT)]);
    program.extend([skip_unless(libc::BPF_JSET, NAMESPACES.cast_unsigned()), refuse(Errno::EPERM)]);
    program.push(allow());
    program
}

/// Sets the filter for this process and all that it will start. It must have set `no_new_privs`.
pub(super) fn install(filter: &[sock_filter]) -> io::Result<()> {
    let length = u16::try_from(filter.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut() };
    // Without this flag some kernels make a filtered process slower in all that it does.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the kernel copies the program, which outlives the call, and does not write to it.
    let set =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    Ok(Errno::result(set).map(drop)?)
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("calls have small numbers")
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).expect("codes are small"), jt: 0, jf: 0, k }
}

fn load(at: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at)
}

fn skip_if(comparison: u32, with: u32) -> sock_filter {
    sock_filter { jt: 1, ..statement(libc::BPF_JMP | comparison | libc::BPF_K, with) }
}

fn skip_unless(comparison: u32, with: u32) -> sock_filter {
    sock_filter { jf: 1, ..statement(libc::BPF_JMP | comparison | libc::BPF_K, with) }
}

fn allow() -> sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW)
}

fn refuse(error: Errno) -> sock_filter {
    let number = (error as i32).cast_unsigned();
    statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | number)
}
