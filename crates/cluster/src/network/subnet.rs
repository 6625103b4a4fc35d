//! The addresses of a run: a /24 of 198.18.0.0/15, for benchmarks (RFC 2544): it hides no private network.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A /24 of 198.18.0.0/15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    second: u8,
    third: u8,
}

impl Subnet {
    pub(crate) const HOSTS: usize = 253;

    pub(crate) const PREFIX: u8 = 24;

    pub(crate) fn all() -> impl Iterator<Item = Subnet> {
        (18..=19).flat_map(|second| (0..=255).map(move |third| Subnet { second, third }))
    }

    /// The bridge's address: this machine's.
    pub(crate) fn gateway(self) -> Ipv4Addr {
        self.address(1)
    }

    fn address(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, self.second, self.third, host)
    }

    pub(crate) fn hosts(self) -> impl Iterator<Item = Ipv4Addr> {
        (2..=254).map(move |host| self.address(host))
    }

    pub(crate) fn overlaps(self, network: Ipv4Addr, prefix: u8) -> bool {
        let bits = prefix.min(Subnet::PREFIX);
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        (u32::from(network) ^ u32::from(self.address(0))) & mask == 0
    }

    pub(crate) fn is_routed_here(self) -> bool {
        routes().into_iter().any(|(network, prefix)| prefix > 0 && self.overlaps(network, prefix))
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(0), Subnet::PREFIX)
    }
}

impl FromStr for Subnet {
    type Err = ();

    fn from_str(text: &str) -> Result<Subnet, ()> {
        Subnet::all().find(|subnet| subnet.to_string() == text.trim()).ok_or(())
    }
}

/// Destinations of this machine's routes. The table has addresses and masks in hexadecimal, in memory order.
fn routes() -> Vec<(Ipv4Addr, u8)> {
    let table = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let number = |field: Option<&str>| u32::from_str_radix(field?, 16).ok().map(u32::from_be);
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let network = number(fields.next())?;
            let mask = number(fields.nth(5))?;
            Some((Ipv4Addr::from(network), u8::try_from(mask.count_ones()).ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_what_shares_an_address() {
        let subnet: Subnet = "198.18.5.0/24".parse().unwrap();
        for (network, prefix, expected) in [
            ([198, 18, 5, 128], 25, true),
            ([198, 18, 0, 0], 16, true),
            ([0, 0, 0, 0], 0, true),
            ([198, 18, 4, 0], 24, false),
            ([198, 18, 4, 0], 23, true),
            ([10, 0, 0, 0], 8, false),
        ] {
            assert_eq!(subnet.overlaps(Ipv4Addr::from(network), prefix), expected, "{network:?}/{prefix}");
        }
    }

    #[test]
    fn reads_this_machines_routes() {
        // Every machine that runs tests has a route or none at all; what must not happen is nonsense.
        assert!(routes().iter().all(|(_, prefix)| *prefix <= 32));
    }
}
