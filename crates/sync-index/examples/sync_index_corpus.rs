//! Writes the seeds of the fuzz target `sync_index`: `cargo run -p layercast-sync-index --example sync_index_corpus`.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use layercast_core::{Span, Time};
use layercast_sync_index::pdu::{Control, Reason};
use layercast_sync_index::{EstimatorConfig, Format, ProbeConfig, ProbeReceiver, ProbeSender};

#[path = "../../../fuzz/src/sync_index.rs"]
mod checks;

/// All datagrams of a sender and a receiver over two seconds.
fn train(format: Format) -> Vec<Bytes> {
    let (session, key) = checks::SESSION;
    let mut config = ProbeConfig::new(session, key);
    (config.format, config.count, config.period) = (format, Some(60), Span::from_ms(30));
    let mut now = Time::ZERO + Span::from_secs(1);
    let mut sender = ProbeSender::new(config, now).expect("a valid configuration");
    let estimator = EstimatorConfig {
        lags: 3,
        windows: 4,
        ..EstimatorConfig::default()
    };
    let mut receiver = ProbeReceiver::new(estimator, None).expect("a valid configuration");
    let mut all = Vec::new();
    for _ in 0..4_000 {
        while let Some(datagram) = sender.poll_transmit(now) {
            let _ = receiver.handle(now, 1_u8, checks::TOKEN, &datagram);
            all.push(datagram);
        }
        receiver.on_timeout(now);
        while let Some((_, answer)) = receiver.poll_transmit() {
            let _ = sender.handle_datagram(now, &answer);
            all.push(answer);
        }
        now += Span::from_ms(1);
    }
    all
}

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sync_index");
    fs::create_dir_all(&folder)?;
    let (session, key) = checks::SESSION;
    let stop = |reason| {
        Control::Stop {
            session,
            key,
            reason,
        }
        .encode()
    };
    let calls = vec![
        stop(Reason::Busy),
        stop(Reason::Ended),
        Control::Fin { session, key }.encode(),
    ];
    let seeds = [
        ("train", train(Format::Full)),
        ("compact", train(Format::Compact)),
        ("calls", calls),
    ];
    for (name, datagrams) in seeds {
        let mut octets = Vec::new();
        for datagram in datagrams {
            octets.push(datagram.len() as u8);
            octets.extend_from_slice(&datagram);
        }
        fs::write(folder.join(name), &octets)?;
        let half = octets.len() / 2;
        fs::write(folder.join(format!("{name}-short")), &octets[..half])?;
        octets[half] ^= 0x55;
        fs::write(folder.join(format!("{name}-wrong")), &octets)?;
    }
    checks::sync_index(&[]);
    Ok(())
}
