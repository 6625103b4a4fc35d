//! What is installed on this machine.

use std::process::{Command, Stdio};

/// Whether all of these Debian packages are installed here. On a machine that is no Debian none is.
pub(crate) fn are_installed(packages: &[String]) -> bool {
    if packages.is_empty() {
        return true;
    }
    let mut command = Command::new("dpkg-query");
    command.args(["--show", "--showformat=${db:Status-Status}\\n", "--"]).args(packages);
    let output = command.stdin(Stdio::null()).output();
    output.is_ok_and(|output| {
        let text = String::from_utf8_lossy(&output.stdout);
        output.status.success() && text.lines().all(|state| state == "installed")
    })
}
