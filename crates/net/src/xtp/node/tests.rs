use std::net::Ipv4Addr;

use bytes::Bytes;
use layercast_wire::Payload;
use layercast_xtp::SendOptions;

use super::*;

const LOCALHOST: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const PORT: u16 = 7_000;
const LEN: usize = 1_000;

/// Two associations from one socket to another: their contexts here, and a packet of data for each.
struct Two {
    here: XtpNode,
    there: XtpNode,
    contexts: [ContextId; 2],
    packets: [Vec<u8>; 2],
}

impl Two {
    async fn new() -> Two {
        let [mut here, mut there] = [0, 1].map(|_| XtpNode::udp(LOCALHOST).unwrap());
        let config = XtpConfig::new(XtpService::STREAM);
        here.listen(PORT, 2, config.clone()).unwrap();
        let (mut contexts, mut packets) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let id = there.connect(here.local_addr(), PORT, config.clone());
            let id = id.unwrap();
            let (mut context, mut is_connected) = (None, false);
            while context.is_none() || !is_connected {
                tokio::select! {
                    event = here.event() => drop(event.unwrap()),
                    event = there.event() => is_connected |= event.unwrap() == XtpEvent::Connected(id),
                }
                if let Some((accepted, _)) = here.endpoint.accept(PORT) {
                    context = Some(accepted);
                }
            }
            let data = Payload::Bytes(Bytes::from(vec![7; LEN]));
            let how = SendOptions::default();
            assert_eq!(there.endpoint.send(id, &data, &how).unwrap(), LEN);
            let now = there.now();
            let sent = loop {
                let sent = there.endpoint.poll_transmit(now, &mut Off).unwrap();
                if sent.packet.body.data().is_some() {
                    break sent;
                }
            };
            let mut packet = Vec::new();
            sent.packet.encode_into(&mut packet);
            contexts.extend(context);
            packets.push(packet);
        }
        Two {
            here,
            there,
            contexts: contexts.try_into().unwrap(),
            packets: packets.try_into().unwrap(),
        }
    }

    /// Packets of each association that were processed, and those that were dropped before.
    fn counts(&self) -> [(u64, u64); 2] {
        self.contexts.map(|id| {
            let counts = self.here.info(id).unwrap().counts;
            (counts.received, counts.crowded_out)
        })
    }
}

/// More than this host processes comes for one of two associations of a peer: it loses its own packets, and they are counted for it.
#[tokio::test]
async fn one_association_does_not_starve_another() {
    let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    if most.trim().parse::<u64>().unwrap() < 4 << 20 {
        eprintln!("skipped: net.core.rmem_max is less than 4 MiB");
        return;
    }
    let mut two = Two::new().await;
    let before = two.counts();
    let mut sent = [0; 2];
    for _ in 0..20 {
        assert!(two.there.outbox.redirect(two.here.local_addr()));
        for n in 0..600 {
            let of = usize::from(n % 30 == 0);
            let packet = &two.packets[of];
            let push = |out: &mut Vec<u8>| out.extend_from_slice(packet);
            assert!(two.there.outbox.push(packet.len(), false, push));
            sent[of] += 1;
        }
        assert!(two.there.carrier.flush(&mut two.there.outbox));
        poll_fn(|context| two.here.carrier.poll_readable(context)).await;
        two.here.take_some();
    }
    while two.here.take_some() {}
    let after = two.counts();
    let [(flood, crowded_out), (other, none)] =
        [0, 1].map(|of| (after[of].0 - before[of].0, after[of].1));
    assert_eq!((other, none), (sent[1], 0));
    assert_eq!(flood + crowded_out, sent[0]);
    assert!(crowded_out > 1_000, "{crowded_out}");
    assert_eq!(two.here.stats().crowded_out, crowded_out);
}
