//! Source of the figures in `docs/packets.md`: how exact delays are, and what the emulator costs Redis,
//! between two networks. `cargo run --release -p fencepost-nemesis --example packets_cost [netem|emulator]`,
//! as root; measures the named mechanism, else what this machine offers.

mod common;
#[path = "../../tests/faults/networks/mod.rs"]
mod networks;

use common::{Outcome, Server, installed, redis_benchmark};
use fencepost_nemesis::tools::packets::{Distribution, Impairment, Mechanism, Network, Probe};
use networks::{LEFT, Pair, RIGHT};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

fn main() -> Outcome<()> {
    let pair = Pair::new();
    let mechanism = match std::env::args().nth(1).as_deref() {
        Some("netem") => Mechanism::Netem,
        Some("emulator") => Mechanism::Emulator,
        _ => pair.left(Network::offers)?,
    };
    println!("mechanism: {mechanism:?}");
    for (delay_ms, trips) in [(0.0, 2000), (1.0, 2000), (10.0, 500), (100.0, 200), (500.0, 20)] {
        round_trips(&pair, mechanism, delay_ms, trips)?;
    }
    shares(&pair, mechanism)?;
    if installed("redis-benchmark") {
        redis(&pair, mechanism)?;
    }
    Ok(())
}

fn delayed(delay_ms: f64) -> Impairment {
    // Without a delay the least possible loss still leads every packet through the mechanism.
    let loss = if delay_ms == 0.0 { 1e-9 } else { 0.0 };
    Impairment { delay_ms, loss, ..Impairment::default() }
}

fn round_trips(pair: &Pair, mechanism: Mechanism, delay_ms: f64, trips: usize) -> Outcome<()> {
    let listener = pair.right(|| TcpListener::bind((RIGHT, 7000)))?;
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let mut stream = listener.accept()?.0;
        stream.set_nodelay(true)?;
        let mut byte = [0];
        while stream.read(&mut byte)? > 0 {
            stream.write_all(&byte)?;
        }
        Ok(())
    });
    let mut took_ms = pair.left(|| -> Outcome<Vec<f64>> {
        let mut stream = TcpStream::connect((RIGHT, 7000))?;
        stream.set_nodelay(true)?;
        let mut network = Network::by(mechanism);
        if delay_ms > 0.0 {
            network.set("cost", &[RIGHT], delayed(delay_ms))?;
        }
        (0..trips).map(|_| one_trip(&mut stream)).collect()
    })?;
    echo.join().map_err(|_| "the echo panicked")??;
    took_ms.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| took_ms[((took_ms.len() - 1) as f64 * share) as usize];
    println!(
        "delay {delay_ms} ms: round trip median {:.3} ms, p99 {:.3} ms, least {:.3} ms, most {:.3} ms ({trips} trips)",
        at(0.5),
        at(0.99),
        at(0.0),
        at(1.0)
    );
    Ok(())
}

fn one_trip(stream: &mut TcpStream) -> Outcome<f64> {
    let begun = Instant::now();
    stream.write_all(&[1])?;
    stream.read_exact(&mut [0])?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

/// What share of echoes is lost, copied, overtaken, and how long those of a slow link take.
fn shares(pair: &Pair, mechanism: Mechanism) -> Outcome<()> {
    let plain = Impairment::default();
    let spread = |distribution| Impairment { delay_ms: 50.0, jitter_ms: 10.0, distribution, ..plain };
    let impairments = [
        Impairment { loss: 0.2, ..plain },
        Impairment { loss: 0.2, loss_correlation: 0.6, ..plain },
        Impairment { duplicate: 0.2, ..plain },
        Impairment { delay_ms: 20.0, reorder: 0.2, ..plain },
        spread(Distribution::Uniform),
        spread(Distribution::Normal),
        spread(Distribution::Pareto),
    ];
    for impairment in impairments {
        let probe = Probe { to: RIGHT, count: 5000, gap_ms: 0.5, bytes: 84, patience_ms: 500 };
        measure(pair, mechanism, impairment, &probe)?;
    }
    let probe = Probe { to: RIGHT, count: 25, gap_ms: 0.0, bytes: 986, patience_ms: 5000 };
    measure(pair, mechanism, Impairment { rate_kbit: 100, ..plain }, &probe)
}

fn measure(pair: &Pair, mechanism: Mechanism, impairment: Impairment, probe: &Probe) -> Outcome<()> {
    pair.left(|| {
        let mut network = Network::by(mechanism);
        network.set("cost", &[RIGHT], impairment)?;
        let echoes = probe.run()?;
        println!("{}: {}", serde_json::to_string(&impairment)?, serde_json::to_string(&echoes)?);
        Ok(())
    })
}

/// SETs a second with 50 connections, without and with every packet through the mechanism.
fn redis(pair: &Pair, mechanism: Mechanism) -> Outcome<()> {
    let _server = pair.right(|| {
        let options = ["--bind", "198.18.0.2", "--protected-mode", "no", "--save", "", "--appendonly", "no"];
        Server::start(Command::new("redis-server").args(options))
    })?;
    std::thread::sleep(Duration::from_millis(500));
    let (mut sums, mut packets) = ([0.0; 3], 0);
    for _ in 0..5 {
        sums[0] += benchmark(pair)?;
        let server_side = pair.right(|| through(mechanism, LEFT))?;
        sums[1] += benchmark(pair)?;
        let client_side = pair.left(|| through(mechanism, RIGHT))?;
        sums[2] += benchmark(pair)?;
        packets += pair.right(move || passed(&server_side))? + pair.left(move || passed(&client_side))?;
    }
    let [none, server_side, both_sides] = sums.map(|sum| sum / 5.0);
    println!("SET/s: none {none:.0}; {packets} packets went through in the others");
    println!("SET/s: through the server's {server_side:.0} ({:.0} %)", server_side / none * 100.0);
    println!("SET/s: through both sides' {both_sides:.0} ({:.0} %)", both_sides / none * 100.0);
    Ok(())
}

fn through(mechanism: Mechanism, to: std::net::Ipv4Addr) -> Outcome<Network> {
    let mut network = Network::by(mechanism);
    network.set("cost", &[to], delayed(0.0))?;
    Ok(network)
}

fn passed(network: &Network) -> Outcome<u64> {
    Ok(network.look()?.counts.values().map(|counts| counts.passed).sum())
}

fn benchmark(pair: &Pair) -> Outcome<f64> {
    let options = ["-h", "198.18.0.2", "-t", "set", "-n", "60000", "-c", "50"];
    Ok(pair.left(|| redis_benchmark(&options))?[0])
}
