//! Serves a disk that can be broken, for tests: mounted on the folder that is the argument, and broken as
//! JSON lines on standard input say, until that closes. A process of its own, because one that page-faults on
//! a file system which it serves itself can wait for itself.

use fencepost_nemesis::tools::disk::{Disk, Failing, Slow, Torn};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead};
use std::path::Path;

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Order {
    Crash { torn: Option<Torn>, seed: u64 },
    Fill { bytes_left: u64, copy_on_write: bool },
    Slow(Slow),
    Fail { failing: Failing },
    Flip { bits: u32, path: String, seed: u64 },
    Heal,
    Probe { bytes: usize },
}

fn main() -> io::Result<()> {
    let folder = std::env::args().nth(1).ok_or_else(|| io::Error::other("usage: served_disk FOLDER"))?;
    let disk = Disk::mount(Path::new(&folder))?;
    println!("null");
    for line in io::stdin().lock().lines() {
        println!("{}", carry_out(&disk, serde_json::from_str(&line?)?)?);
    }
    Ok(())
}

fn carry_out(disk: &Disk, order: Order) -> io::Result<Value> {
    Ok(match order {
        Order::Crash { torn, seed } => json!(disk.crash(torn, seed)?),
        Order::Fill { bytes_left, copy_on_write } => json!(disk.fill(bytes_left, copy_on_write)),
        Order::Slow(slow) => json!(disk.slow(slow)),
        Order::Fail { failing } => json!(disk.fail(failing)),
        Order::Flip { bits, path, seed } => json!(disk.flip(bits, &path, seed)?),
        Order::Heal => json!(disk.heal()),
        Order::Probe { bytes } => json!(disk.probe(bytes)?),
    })
}
