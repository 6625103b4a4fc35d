//! What nodes and this machine do not reach of each other.

use super::scenarios::NO_ANSWER;
use super::*;
use std::net::IpAddr;

/// A node reaches no service of this machine, and this machine none of a node.
pub async fn nodes_and_this_machine_do_not_reach_each_other(name: &str) {
    let (driver, spec) =
        (driver(name).await, spec(&format!("apart-{name}"), &[("n1", "redis"), ("n2", "redis")]));
    let cluster = start(&*driver, &spec).await;
    let [n1, n2] = ["n1", "n2"].map(|name| cluster.node(name).unwrap());
    start_redis(n1).await;
    // By both protocols, where this machine has both.
    let listener =
        std::net::TcpListener::bind("[::]:0").or_else(|_| std::net::TcpListener::bind("0.0.0.0:0"));
    let port = listener.as_ref().unwrap().local_addr().unwrap().port();
    // Each interface that has joined a group stands there with its number: the loopback's, and the node's
    // own.
    let groups = output(n1, &["cat", "/proc/net/igmp"]).await;
    let numbers = groups.lines().filter_map(|line| line.split('\t').next()?.parse::<u32>().ok());
    let interface = numbers.max().expect("a network");
    let mut gateway = n1.address().octets();
    gateway[3] = 1;
    let addresses = of_this_machine().into_iter().chain([IpAddr::from(gateway)]);
    for address in addresses {
        let here = match address {
            IpAddr::V4(address) => format!("{address}:{port}"),
            // An address of a link is one only together with the interface.
            IpAddr::V6(address) => format!("[{address}%{interface}]:{port}"),
        };
        assert!(n1.connect(&here, NO_ANSWER).await.unwrap().is_err(), "n1 reaches {here}");
    }
    // Nor has one come that was only not answered.
    let listener = listener.unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let redis = format!("{}:6379", n1.address());
    // A proxy of this machine may accept connections to any address.
    assert_ne!(answer_to_ping(&redis, NO_ANSWER), b"+PONG", "this machine reaches {redis}");
    assert!(n2.connect(&redis, PATIENCE).await.unwrap().is_ok(), "n2 does not reach n1");
    stop(cluster, &spec).await;
}

/// All addresses of this machine but for the loopback's.
fn of_this_machine() -> Vec<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().unwrap().filter_map(|interface| interface.address);
    let addresses = interfaces.filter_map(|address| {
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
        v4.or(address.as_sockaddr_in6().map(|address| IpAddr::from(address.ip())))
    });
    addresses.filter(|address| !address.is_loopback()).collect()
}

/// The beginning of what a Redis at this address answers.
fn answer_to_ping(address: &str, patience: Duration) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut answer = [0; 5];
    let asked =
        std::net::TcpStream::connect_timeout(&address.parse().unwrap(), patience).and_then(|mut stream| {
            stream.set_read_timeout(Some(patience))?;
            stream.write_all(b"PING\r\n")?;
            stream.read_exact(&mut answer)
        });
    asked.map(|()| answer.to_vec()).unwrap_or_default()
}
