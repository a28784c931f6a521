//! What the machines ask of the allocator once they run: counted, as speed cannot be in a test.

#[path = "ends/common/mod.rs"]
mod common;

use allocation_counter::measure;
use common::*;
use layercast_core::{Layer, Level, Machine, Off, Span, Time};
use layercast_mets::{AppFrame, Source, SourceConfig, SourceEvent, SourceTransmit, feed};
use layercast_wire::{Carriage, FrameType, LinkPdu};

/// What a source did in some time.
#[derive(Clone, Copy, Default, Debug)]
struct Did {
    allocations: u64,
    base: u64,
    parities: u64,
}

/// Lets a source run alone, and drops what it sends.
fn run_alone(source: &mut Source, from: Time, span: Span, frame: &AppFrame) -> Did {
    let mut did = Did::default();
    let (mut now, end) = (from, from + span);
    let mut media = std::iter::repeat_with(|| frame.clone());
    let asked = measure(|| {
        while now < end {
            source.on_timeout(now, &mut Off);
            while let Some(event) = source.poll_event() {
                if matches!(event, SourceEvent::NeedFrames(_)) {
                    feed(source, now, &mut media);
                }
            }
            while let Some(transmit) = source.poll_transmit(now, &mut Off) {
                if let SourceTransmit::Pdu(LinkPdu::Mets(packet)) = &transmit {
                    did.base += u64::from(packet.header.kind == FrameType::BL);
                    did.parities += u64::from(packet.header.kind == FrameType::PARITY);
                }
            }
            now = source
                .next_timeout()
                .unwrap_or(end)
                .max(now + Span::from_us(1));
        }
    });
    did.allocations = asked.count_total;
    did
}

/// A source of nothing but base layer, after its receiver has joined and it has run for a while.
fn steady(parities: Option<&str>) -> Did {
    let config = SourceConfig {
        parities: parities.map(|text| text.parse().unwrap()),
        ..source_config(Carriage::Datagrams, 300)
    };
    let mut world = World::new(config, sink_config(Carriage::Datagrams), 4);
    world.run_until(ms(1_000));
    world.send_to_source(res(9, Level::BASE));
    let frame = AppFrame {
        layer: Layer::Base,
        gop_start: true,
        sound: false,
        time: None,
        payload: bytes::Bytes::from(content(1, 240 * 48 - 40)).into(),
    };
    let now = world.now;
    let warm = Span::from_secs(20);
    run_alone(&mut world.source, now, warm, &frame);
    run_alone(&mut world.source, now + warm, Span::from_secs(60), &frame)
}

#[test]
fn parities_of_the_base_layer_allocate_nothing_for_each_packet() {
    let off = steady(None);
    assert!(off.base > 1_000 && off.parities == 0, "{off:?}");
    for code in ["6+2", "7+1"] {
        let on = steady(Some(code));
        assert!(on.parities > 200, "{on:?}");
        // Of packets that were not protected the same number were sent, or fewer.
        let each = |did: Did| did.allocations as f64 / did.base as f64;
        let more = each(on) - each(off);
        assert!(
            more < 0.01,
            "{code}: {more} allocations for each packet; {on:?}, {off:?}"
        );
    }
}
