//! A guest kernel that has netem, for machines whose own has not: Debian's user-mode-linux runs as a plain
//! process, with this machine's files read-only as its root, and with a test of this very file as its first
//! process.

use fencepost_cluster::{DriverOptions, Suite, image_store};
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The kernel and its modules, where Debian's package puts them below its root.
const KERNEL: &str = "usr/bin/linux.uml";
const MODULES: &str = "usr/lib/uml/modules";

/// What the kernel of the guest needs beyond what is built in.
const NEEDED: [&str; 4] =
    ["drivers/net/veth.ko", "net/sched/sch_netem.ko", "net/sched/sch_htb.ko", "net/sched/cls_u32.ko"];

/// The guest prints it when the test in it went well.
const WELL: &str = "guest: all is well";

/// Boots the guest with the ignored test of that name, which must begin by calling [`inside`].
pub fn boot(test: &str) {
    let program = std::env::current_exe().expect("the path of this test");
    let root = unpacked();
    let output = Command::new(root.join(KERNEL))
        .env("LD_PRELOAD", whole_xstate(&program))
        .args(["mem=256M", "rootfstype=hostfs", "ro", "quiet", "con=null", "con0=null,fd:1", "ssl=null"])
        .arg("PATH=/usr/sbin:/usr/bin:/sbin:/bin")
        // What the kernel does not know itself becomes the first process's environment.
        .arg(format!("{ROOT}={}", root.display()))
        .arg(format!("init={}", program.display()))
        .args(["--", "--exact", test, "--ignored", "--nocapture"])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("the guest kernel in {} did not start: {error}", root.display()));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(WELL), "the test in the guest failed:\n{said}");
}

/// What lets the guest's kernel run on processors that are younger than it: see its source. Compiled beside
/// the test.
fn whole_xstate(program: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/faults/guest/whole_xstate.c");
    let library = program.with_file_name(format!("whole_xstate-{}.so", std::process::id()));
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
        .arg(&library)
        .arg(source)
        .output();
    let output = output.expect("a C compiler, which linking Rust needs as well");
    assert!(output.status.success(), "{source} is not C: {}", String::from_utf8_lossy(&output.stderr));
    library
}

/// Names the root of the guest's kernel to the guest.
const ROOT: &str = "FENCEPOST_GUEST_ROOT";

/// Where the kernel lies: in Debian's package, unpacked.
fn unpacked() -> PathBuf {
    let options = DriverOptions::new().expect("this program's path");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // A kernel whose modules are tried; that of Debian 13 does not come up here.
    let suite = Suite::find("bookworm").expect("a suite");
    let made = runtime.block_on(image_store::root_with(&["user-mode-linux"], suite, &options));
    let root = made.unwrap_or_else(|error| {
        panic!("this machine's kernel has no netem, and Debian's package user-mode-linux, whose kernel has, cannot be had: {error}")
    });
    // It stays for as long as this test.
    Box::leak(Box::new(root)).folder().to_owned()
}

/// Does the work as the guest's first process, and turns the guest off.
pub fn inside(work: impl FnOnce() + std::panic::UnwindSafe) {
    assert_eq!(std::process::id(), 1, "this is for the guest only");
    let went = std::panic::catch_unwind(|| {
        let plain = |what: &str, at: &str| {
            mount(Some(what), at, Some(what), MsFlags::empty(), None::<&str>).expect("a mount in the guest");
        };
        plain("proc", "/proc");
        plain("sysfs", "/sys");
        // Before anything is mounted over /tmp: this checkout may lie there.
        let modules = modules();
        for name in NEEDED {
            let file = File::open(modules.join(name)).expect("a module of the guest's kernel");
            finit_module(&file, c"", ModuleInitFlags::empty()).expect("to load a module in the guest");
        }
        plain("tmpfs", "/run");
        plain("tmpfs", "/tmp");
        work();
    });
    if went.is_ok() {
        println!("{WELL}");
    }
    let _ = reboot(RebootMode::RB_POWER_OFF);
}

/// Of the kernel that runs.
fn modules() -> PathBuf {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's release");
    let root = std::env::var(ROOT).expect("the guest knows where its modules are");
    Path::new(&root).join(MODULES).join(release.trim()).join("kernel")
}
