use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};

/// A network between two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// 10 Mbit/s, one frame on the wire at a time, whatever its direction.
    Ethernet,
    /// 155.52 Mbit/s each way, a circuit for each connection.
    Atm,
}

/// Octets around an IP packet on the wire: preamble, header, CRC and gap.
const FRAMING: u64 = 38;
const LEAST_PAYLOAD: u64 = 46;
/// Octets of LLC/SNAP and of the AAL5 trailer.
const AAL5: u64 = 16;

impl Network {
    /// Time of an IP packet on the wire.
    pub fn time(self, octets: usize) -> Span {
        let octets = octets as u64;
        match self {
            Network::Ethernet => Span::from_ns(800).times(octets.max(LEAST_PAYLOAD) + FRAMING),
            Network::Atm => {
                let cells = (octets + AAL5).div_ceil(48);
                // SDH leaves 149.76 Mbit/s of 155.52.
                Span::from_secs(1).mul_div(cells * 53 * 8, 149_760_000)
            }
        }
    }
}

/// The wire, with the time until which it is busy.
#[derive(Debug)]
pub struct Line {
    network: Network,
    free_at: [Time; 2],
    busy: Span,
}

impl Line {
    pub fn new(network: Network) -> Line {
        Line {
            network,
            free_at: [Time::ZERO; 2],
            busy: Span::ZERO,
        }
    }

    /// Sends an IP packet from a host; gives when it is at the other one.
    pub fn send(&mut self, now: Time, from: usize, octets: usize) -> Time {
        let way = match self.network {
            Network::Ethernet => 0,
            Network::Atm => from,
        };
        let time = self.network.time(octets);
        self.busy += time;
        self.free_at[way] = self.free_at[way].max(now) + time;
        self.free_at[way]
    }

    /// Share of the time that it was busy; of both directions.
    pub fn load(&self, until: Time) -> f64 {
        self.busy.as_secs_f64() / until.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_take_their_frames_and_cells() {
        // 1538 octets of 0.8 us, and 84; 32 cells of 53 octets for 1500 + 16.
        assert_eq!(Network::Ethernet.time(1_500), Span::from_ns(1_230_400));
        assert_eq!(Network::Ethernet.time(40), Span::from_ns(67_200));
        assert_eq!(
            Network::Atm.time(1_500).as_ns(),
            32 * 53 * 8 * 1_000_000 / 149_760
        );
    }

    #[test]
    fn an_ethernet_has_one_wire_and_a_circuit_two() {
        let at = |network| {
            let mut line = Line::new(network);
            line.send(Time::ZERO, 0, 1_500);
            line.send(Time::ZERO, 1, 1_500).since(Time::ZERO)
        };
        assert_eq!(
            at(Network::Ethernet),
            Network::Ethernet.time(1_500).times(2)
        );
        assert_eq!(at(Network::Atm), Network::Atm.time(1_500));
    }
}
