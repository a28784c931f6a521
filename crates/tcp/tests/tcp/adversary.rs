//! A channel that loses, reorders, duplicates, delays and damages: the bytes arrive exactly, or both sides get
//! an error.

use bytes::Bytes;
use layercast_core::{Span, Stream};
use layercast_tcp::{
    Ecn, EcnMode, LossDetection, Profile, SlowStart, TcpConfig, TcpPacket, Variant,
};
use layercast_wire::{IpBody, Ipv4Packet, Payload};
use proptest::prelude::*;

use super::net::{Channel, Net, PORT, VARIANTS, address};

/// How bad the channel is.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    pub loss: f64,
    pub duplicate: f64,
    pub damage: f64,
    pub reorder: f64,
    pub seed: u64,
}

/// Every packet goes through its bytes; damage is one bit, which a checksum always sees.
pub fn channel(weather: Weather) -> Channel {
    let mut random = Stream::new(weather.seed, "weather");
    Box::new(move |_, mut packet| {
        if packet.ecn.is_capable() && random.below(8) == 0 {
            packet.ecn = Ecn::Congested;
        }
        if random.chance(weather.loss) {
            return Vec::new();
        }
        let copies = if random.chance(weather.duplicate) {
            2
        } else {
            1
        };
        let mut out = Vec::new();
        for _ in 0..copies {
            let mut delay = 20_000;
            if random.chance(weather.reorder) {
                delay += random.below(60_000);
            }
            let mut bytes = encode(&packet);
            if random.chance(weather.damage) {
                let bit = random.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            if let Some(packet) = decode(bytes) {
                out.push((Span::from_us(delay), packet));
            }
        }
        out
    })
}

fn encode(packet: &TcpPacket) -> Vec<u8> {
    let body = IpBody::Tcp(packet.segment.clone());
    let mut out = Vec::new();
    let tos = packet.ecn.in_tos(0);
    let packet = Ipv4Packet {
        tos,
        ..Ipv4Packet::new(packet.src, packet.dst, body)
    };
    packet.encode_into(&mut out).unwrap();
    out
}

fn decode(bytes: Vec<u8>) -> Option<TcpPacket> {
    match Ipv4Packet::decode(bytes.into()).ok()? {
        Ipv4Packet {
            src,
            dst,
            tos,
            body: IpBody::Tcp(segment),
            ..
        } => Some(TcpPacket {
            src,
            dst,
            ecn: Ecn::of_tos(tos),
            segment,
        }),
        _ => None,
    }
}

fn pattern(from: usize, len: usize, salt: u8) -> Vec<u8> {
    (from..from + len)
        .map(|at| (at.wrapping_mul(31) >> 3) as u8 ^ salt)
        .collect()
}

/// One side's user: writes a pattern, closes, reads what the other writes.
struct User {
    id: layercast_tcp::ConnId,
    written: usize,
    total: usize,
    got: Vec<u8>,
    salt: u8,
}

impl User {
    fn turn(&mut self, net: &mut Net, host: usize, chunk: usize) {
        while self.written < self.total {
            let len = chunk.min(self.total - self.written);
            let data = pattern(self.written, len, self.salt);
            let Ok(taken) = net.hosts[host].write(self.id, &Payload::Bytes(Bytes::from(data)))
            else {
                return;
            };
            self.written += taken;
            if taken < len {
                break;
            }
        }
        if self.written == self.total {
            let _ = net.hosts[host].shutdown(self.id);
        }
        self.got.extend(net.read(host, self.id));
    }

    fn is_done(&self, net: &Net, host: usize) -> bool {
        net.hosts[host].available(self.id) == Some((0, true))
    }
}

/// Transfers both ways; gives how much memory a connection took at most.
fn transfer(config: [TcpConfig; 2], weather: Weather, totals: [usize; 2], chunk: usize) -> usize {
    let mut net = Net::new(config, channel(weather));
    net.hosts[1].listen(PORT, 8).unwrap();
    let (local, remote) = (address(0, 0), address(1, PORT));
    let id = net.hosts[0].connect(net.now, local, remote).unwrap();
    let user = |id, total, salt| User {
        id,
        written: 0,
        total,
        got: Vec::new(),
        salt,
    };
    let mut near = user(id, totals[0], 1);
    let mut far = None;
    let mut memory = 0;
    // Time-outs of 64 s in a row are lawful; three hours are not.
    let end = net.now + Span::from_secs(10_000);
    while net.step(end) {
        if far.is_none() {
            far = net.hosts[1]
                .accept(PORT)
                .map(|(id, _)| user(id, totals[1], 2));
        }
        near.turn(&mut net, 0, chunk);
        if let Some(far) = &mut far {
            far.turn(&mut net, 1, chunk);
            memory = memory.max(net.hosts[1].info(far.id).map_or(0, |info| info.memory));
            if near.is_done(&net, 0) && far.is_done(&net, 1) {
                break;
            }
        }
        if net.failure(0).is_some() || net.failure(1).is_some() {
            break;
        }
    }
    let failed = net.failure(0).or(net.failure(1));
    let whole = |user: &User, other: &User| {
        assert_eq!(user.got, pattern(0, user.got.len(), other.salt));
        user.got.len() == other.total
    };
    match &far {
        Some(far) => {
            let all = whole(&near, far) & whole(far, &near);
            assert!(all || failed.is_some(), "neither the bytes nor an error");
        }
        None => assert!(failed.is_some(), "never accepted, never reported"),
    }
    memory
}

fn variants() -> impl Strategy<Value = Variant> {
    prop_oneof![
        Just(Variant::Tahoe),
        Just(Variant::Reno),
        Just(Variant::NewReno),
        Just(Variant::Sack),
        Just(Variant::Cubic),
        Just(Variant::Linux),
        Just(Variant::Dctcp),
    ]
}

fn configs() -> impl Strategy<Value = TcpConfig> {
    let profiles = prop_oneof![
        Just(Profile::Bsd44Lite),
        Just(Profile::SunOs413),
        Just(Profile::Tick10),
        Just(Profile::Modern),
    ];
    let buffers = (1_500..70_000u32, 1_500..70_000u32);
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let modes = prop_oneof![
        Just(EcnMode::Off),
        Just(EcnMode::Classic),
        Just(EcnMode::EachMark),
        Just(EcnMode::L4s),
    ];
    let options = (any::<bool>(), any::<bool>());
    (profiles, variants(), buffers, switches, modes, options).prop_map(
        |(profile, variant, (send_buffer, recv_buffer), switches, mode, options)| {
            let (nagle, stamps, sack, scaling) = switches;
            let mut config = TcpConfig {
                variant,
                send_buffer,
                recv_buffer,
                nagle,
                timestamps: stamps,
                sack,
                ecn: match (variant, mode) {
                    (Variant::Dctcp, EcnMode::L4s) => EcnMode::L4s,
                    (Variant::Dctcp, _) | (_, EcnMode::L4s) => EcnMode::EachMark,
                    _ => mode,
                },
                window_scaling: scaling,
                ..TcpConfig::from(profile)
            };
            let plain = config.clone();
            if options.0 {
                config.loss_detection = LossDetection::Rack;
            }
            if options.1 {
                config.slow_start = SlowStart::HyStartPlusPlus;
            }
            match config.validate() {
                Ok(()) => config,
                Err(_) => plain,
            }
        },
    )
}

fn weathers() -> impl Strategy<Value = Weather> {
    (0.0..0.2, 0.0..0.2, 0.0..0.1, 0.0..0.5, any::<u64>()).prop_map(
        |(loss, duplicate, damage, reorder, seed)| Weather {
            loss,
            duplicate,
            damage,
            reorder,
            seed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    #[test]
    fn the_bytes_arrive_or_an_error_is_told(
        a in configs(),
        b in configs(),
        weather in weathers(),
        totals in (0..60_000usize, 0..20_000usize),
        chunk in 1..5_000usize,
    ) {
        let memory = transfer([a, b], weather, [totals.0, totals.1], chunk);
        prop_assert!(memory < 64 << 10, "{memory} bytes beside the data");
    }
}

#[test]
fn every_variant_finishes_in_fair_weather() {
    let by_time = |variant| {
        use Variant::{Cubic, Dctcp, Linux, Sack};
        matches!(variant, Sack | Cubic | Linux | Dctcp)
    };
    let both = [LossDetection::Duplicates, LossDetection::Rack];
    let all = VARIANTS.into_iter().flat_map(|it| both.map(|by| (it, by)));
    for (variant, loss_detection) in
        all.filter(|&(it, by)| by == LossDetection::Duplicates || by_time(it))
    {
        let config = TcpConfig {
            variant,
            loss_detection,
            ecn: EcnMode::EachMark,
            ..TcpConfig::from(Profile::Modern)
        };
        let weather = Weather {
            loss: 0.02,
            duplicate: 0.01,
            damage: 0.01,
            reorder: 0.0,
            seed: 5,
        };
        transfer(
            [config.clone(), config],
            weather,
            [1 << 20, 1 << 20],
            10_000,
        );
    }
}
