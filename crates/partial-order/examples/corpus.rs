//! Writes the seeds of the fuzz target `partial_order`:
//! `cargo run -p layercast-partial-order --example corpus -- fuzz/corpus/partial_order`.

use std::error::Error;
use std::fs;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use layercast_core::Serial;
use layercast_partial_order::pdu::{Body, Pdu, Reject, Report};

#[path = "../../../fuzz/src/partial_order.rs"]
mod checks;

fn framed(flow: u16, body: Body) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    let pdu = Pdu {
        flow,
        connection: 1,
        stamp: 1_000_001,
        body,
    };
    pdu.encode(&mut bytes);
    let mut out = (bytes.len() as u16).to_be_bytes().to_vec();
    out.extend_from_slice(&bytes);
    out
}

fn data(flow: u16, number: u32, sent: [u32; 2]) -> Vec<u8> {
    let body = Body::Data {
        number: Serial(number),
        ack: true,
        again: false,
        skip: false,
        sent: sent.map(Serial).to_vec(),
        payload: Bytes::from_static(b"sdu"),
    };
    framed(flow, body)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: corpus FOLDER")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    // The checks are compiled for the configuration only.
    checks::partial_order(&[]);
    let open = |token| {
        let config = checks::config().to_bytes();
        framed(0, Body::Open { token, config })
    };
    let report = |last, list: &[u32]| Report {
        last: Serial(last),
        list: list.iter().map(|&it| Serial(it)).collect(),
    };
    let highest = Some(Serial(5));
    let seeds = [
        ("open", [open(0), open(7)].concat()),
        (
            "data",
            [data(0, 0, [1, 0]), data(0, 2, [3, 1]), data(1, 1, [3, 2])].concat(),
        ),
        (
            "answers",
            [
                framed(0, Body::AckRes(report(0, &[]))),
                framed(1, Body::Fnack(report(1, &[0]))),
                framed(0, Body::OpenAck(vec![64, 64])),
                framed(0, Body::Retry(9)),
            ]
            .concat(),
        ),
        (
            "requests",
            [
                framed(0, Body::AckReq { highest }),
                framed(1, Body::Gone(vec![Serial(0)])),
            ]
            .concat(),
        ),
        (
            "close",
            [
                framed(0, Body::Close(vec![Serial(6), Serial(2)])),
                framed(0, Body::CloseAck),
                framed(0, Body::Reject(Reject::Ended)),
            ]
            .concat(),
        ),
    ];
    let all = seeds.iter().flat_map(|(_, seed)| seed.clone()).collect();
    for (name, seed) in seeds.into_iter().chain([("all", all)]) {
        fs::write(folder.join(name), &seed)?;
        fs::write(
            folder.join(format!("{name}-short")),
            &seed[..seed.len() - 1],
        )?;
        let mut wrong = seed;
        let middle = wrong.len() / 2;
        wrong[middle] ^= 0xff;
        fs::write(folder.join(format!("{name}-wrong")), wrong)?;
    }
    Ok(())
}
