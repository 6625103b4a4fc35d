//! A packet of TCP, read as far as it takes to reset its connection.

const TCP: u8 = 6;

const SYN: u8 = 0x02;
const RST: u8 = 0x04;

const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;

/// Source and destination port, by which a connection of two nodes is known.
pub(super) type Ports = [u8; 4];

/// The connection that a packet belongs to, and whether it opens it. None where it is no TCP.
pub(super) fn connection(packet: &[u8]) -> Option<(Ports, bool)> {
    let ip_bytes = usize::from(packet.first()? & 0x0f) * 4;
    let segment = packet.get(ip_bytes..)?;
    let is_it = packet[0] >> 4 == 4 && *packet.get(9)? == TCP;
    let opens = segment.get(13)? & SYN != 0;
    is_it.then_some((*segment.first_chunk()?, opens))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    addresses: &'a [u8],
    ports_and_number: &'a [u8],
}

impl Segment<'_> {
    /// Reads a whole packet. None where it is no segment of TCP with data.
    pub fn with_data(packet: &[u8]) -> Option<Segment<'_>> {
        let ip_bytes = usize::from(packet.first()? & 0x0f) * 4;
        let length = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
        let segment = packet.get(ip_bytes..length.min(packet.len()))?;
        let tcp_bytes = usize::from(segment.get(12)? >> 4) * 4;
        let has_data = segment.len() > tcp_bytes && segment.get(13)? & (SYN | RST) == 0;
        let is_it = packet[0] >> 4 == 4 && *packet.get(9)? == TCP && has_data;
        is_it.then_some(Segment { addresses: &packet[12..20], ports_and_number: &segment[..8] })
    }

    pub fn ports(&self) -> Ports {
        self.ports_and_number.first_chunk().copied().unwrap_or_default()
    }

    /// A reset for the receiver, just before this packet, with the number that it expects (RFC 5961).
    pub fn reset(&self) -> Vec<u8> {
        let mut packet = vec![0; IP_HEADER + TCP_HEADER];
        let (ip, tcp) = packet.split_at_mut(IP_HEADER);
        ip[0] = 0x45;
        ip[3] = (IP_HEADER + TCP_HEADER) as u8;
        ip[8] = 64;
        ip[9] = TCP;
        ip[12..20].copy_from_slice(self.addresses);
        // The kernel fills in the header's checksum.
        tcp[..8].copy_from_slice(self.ports_and_number);
        tcp[12] = ((TCP_HEADER / 4) << 4) as u8;
        tcp[13] = RST;
        let pseudo_header = [self.addresses, &[0, TCP, 0, TCP_HEADER as u8]].concat();
        let sum = checksum(&[&pseudo_header, tcp]);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        packet
    }
}

/// The internet checksum (RFC 1071) of parts; all but the last have an even length.
pub(super) fn checksum(parts: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 10.0.0.1:4660 to 10.0.0.2:6379, number 1, with this flag and data.
    fn packet(flags: u8, data: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 44];
        packet[0] = 0x45;
        packet[3] = (44 + data.len()) as u8;
        packet[9] = TCP;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[20..28].copy_from_slice(&[0x12, 0x34, 0x18, 0xeb, 0, 0, 0, 1]);
        // 24 bytes: one option.
        packet[32] = 0x60;
        packet[33] = flags;
        packet.extend(data);
        packet
    }

    #[test]
    fn a_connection_is_known_by_its_ports_and_opened_by_a_flag() {
        let ports = [0x12, 0x34, 0x18, 0xeb];
        assert_eq!(connection(&packet(0x10, b"")), Some((ports, false)));
        assert_eq!(connection(&packet(SYN | 0x10, b"")), Some((ports, true)));
        let mut udp = packet(SYN, b"");
        udp[9] = 17;
        assert_eq!((connection(&udp), connection(&[0x45; 12])), (None, None));
    }

    #[test]
    fn only_what_carries_data_is_one() {
        assert!(Segment::with_data(&packet(0x18, b"PING")).is_some());
        for other in [packet(0x10, b""), packet(SYN, b"x"), packet(RST, b"x"), vec![0x45; 10], Vec::new()] {
            assert_eq!(Segment::with_data(&other), None);
        }
        let mut udp = packet(0x18, b"PING");
        udp[9] = 17;
        assert_eq!(Segment::with_data(&udp), None);
        // An Ethernet card pads short packets.
        let mut padded = packet(0x10, b"");
        padded.extend([0; 6]);
        assert_eq!(Segment::with_data(&padded), None);
    }

    #[test]
    fn a_reset_has_the_number_and_a_checksum_that_adds_up() {
        let packet = packet(0x18, b"PING");
        let reset = Segment::with_data(&packet).unwrap().reset();
        assert_eq!(reset[12..28], packet[12..28]);
        assert_eq!((reset.len(), reset[33]), (40, RST));
        let pseudo_header = [&reset[12..20], &[0, TCP, 0, 20]].concat();
        assert_eq!(
            checksum(&[&pseudo_header, &reset[20..]]),
            0,
            "a right checksum makes the sum come out even"
        );
    }
}
