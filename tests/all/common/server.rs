//! `fencepost serve` as a user starts it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The program while it serves; it ends with this, however the test ends.
pub struct Server {
    pub process: Child,
    /// `127.0.0.1:40123`, with the token behind it where it asks for one.
    pub address: String,
}

impl Server {
    /// Serves these runs to this machine, from when it listens.
    pub fn start(results: &Path) -> Server {
        Server::start_on("127.0.0.1:0", results)
    }

    /// Serves these runs on that address.
    pub fn start_on(address: &str, results: &Path) -> Server {
        let mut process = Command::new(crate::PROGRAM)
            .args(["serve", "--config", "none", "--listen", address, "--results"])
            .arg(results)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let line = lines.find_map(|line| line.strip_prefix("http://").map(str::to_owned));
        let line = line.expect("it says where it listens");
        let address = line.split_whitespace().next().expect("an address").to_owned();
        Server { process, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
