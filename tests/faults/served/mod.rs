//! A disk that another process serves, with the methods of a disk of one's own.

use fencepost_nemesis::tools::disk::{DiskCounts, DiskProbe, Failing, Lost, Slow, Torn};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Dropping it unmounts it.
pub struct Disk {
    server: Child,
    pipes: RefCell<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Disk {
    pub fn mount(folder: &Path) -> Result<Disk, String> {
        let mut server = Command::new(env!("CARGO_BIN_EXE_served_disk"))
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (input, output) = (server.stdin.take().unwrap(), BufReader::new(server.stdout.take().unwrap()));
        let disk = Disk { server, pipes: RefCell::new(Some((input, output))) };
        disk.answer::<Value>()?;
        Ok(disk)
    }

    pub fn crash(&self, torn: Option<Torn>, seed: u64) -> Result<Lost, String> {
        self.ask(json!({"do": "crash", "torn": torn, "seed": seed}))
    }

    pub fn fill(&self, bytes_left: u64, copy_on_write: bool) {
        self.ask(json!({"do": "fill", "bytes_left": bytes_left, "copy_on_write": copy_on_write})).unwrap()
    }

    pub fn slow(&self, slow: Slow) {
        let mut order = json!(slow);
        order["do"] = json!("slow");
        self.ask(order).unwrap()
    }

    pub fn fail(&self, failing: &Failing) {
        self.ask(json!({"do": "fail", "failing": failing})).unwrap()
    }

    pub fn flip(&self, bits: u32, path: &str, seed: u64) -> Result<Vec<String>, String> {
        self.ask(json!({"do": "flip", "bits": bits, "path": path, "seed": seed}))
    }

    pub fn heal(&self) -> DiskCounts {
        self.ask(json!({"do": "heal"})).unwrap()
    }

    pub fn probe(&self, bytes: usize) -> Result<DiskProbe, String> {
        self.ask(json!({"do": "probe", "bytes": bytes}))
    }

    fn ask<T: DeserializeOwned>(&self, order: Value) -> Result<T, String> {
        if let Some((input, _)) = &mut *self.pipes.borrow_mut() {
            writeln!(input, "{order}").map_err(|error| error.to_string())?;
        }
        self.answer()
    }

    fn answer<T: DeserializeOwned>(&self) -> Result<T, String> {
        let mut line = String::new();
        if let Some((_, output)) = &mut *self.pipes.borrow_mut() {
            output.read_line(&mut line).map_err(|error| error.to_string())?;
        }
        serde_json::from_str(&line)
            .map_err(|_| "the disk's server ended; its standard error says why".to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        *self.pipes.borrow_mut() = None;
        let _ = self.server.wait();
    }
}
