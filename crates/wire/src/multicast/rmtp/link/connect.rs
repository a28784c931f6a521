use bytes::{Buf, Bytes};

use super::RmtpLinkError;
use crate::multicast::rmtp::{RmtpConnect, RmtpOption};
use crate::multicast::{Content, Object, Open, Terms};

/// User option of CONN: BLAKE3 of the object.
const DIGEST: u16 = RmtpOption::USER;
/// User option of CONN: how long receivers wait for data and for the server (ms, u32 each), and which share of them
/// counts between monitor bits (u16).
const WAITS: u16 = RmtpOption::USER + 1;

/// What opens a connection for this session.
pub(super) fn connect_of(open: &Open) -> Result<RmtpConnect, RmtpLinkError> {
    let object = open.object.as_ref();
    let object = object.ok_or(RmtpLinkError::Unsaid("a stream"))?;
    let terms = &open.terms;
    if object.scheme != 0 || terms.content != Content::Ranges {
        return Err(RmtpLinkError::Unsaid("repair by parities"));
    }
    if !terms.unasked || !terms.goodbye || terms.in_order {
        return Err(RmtpLinkError::Unsaid("terms other than RMTP's"));
    }
    let size = u32::try_from(object.size).map_err(|_| RmtpLinkError::Unsaid("such a size"))?;
    let waits = [terms.data_wait_ms, terms.sender_wait_ms].map(u32::to_be_bytes);
    let waits = [&waits[0][..], &waits[1], &terms.counters.to_be_bytes()].concat();
    Ok(RmtpConnect {
        options: vec![
            RmtpOption::new(1, object.name.clone())?,
            RmtpOption::BackOff(terms.spread_us.div_ceil(1_000)),
            RmtpOption::new(DIGEST, Bytes::copy_from_slice(&object.digest))?,
            RmtpOption::new(WAITS, waits.into())?,
        ],
        ..RmtpConnect::new(size, open.packet_size)?
    })
}

/// What a connection is to the engine; without our own options the digest is zeros and nothing is waited for.
pub(super) fn open_of(connect: &RmtpConnect) -> Open {
    let mut terms = Terms {
        content: Content::Ranges,
        in_order: false,
        unasked: true,
        goodbye: true,
        spread_us: 0,
        data_wait_ms: 0,
        sender_wait_ms: 0,
        counters: 0,
    };
    let mut object = Object {
        size: connect.size.into(),
        block: 1,
        scheme: 0,
        digest: [0; 32],
        name: Bytes::new(),
    };
    for option in &connect.options {
        match option {
            RmtpOption::DataName(name) => object.name = name.clone(),
            RmtpOption::BackOff(ms) => terms.spread_us = ms.saturating_mul(1_000),
            RmtpOption::Other { code, value } if *code == DIGEST && value.len() == 32 => {
                object.digest.copy_from_slice(value);
            }
            RmtpOption::Other { code, value } if *code == WAITS && value.len() == 10 => {
                let mut value = value.clone();
                terms.data_wait_ms = value.get_u32();
                terms.sender_wait_ms = value.get_u32();
                terms.counters = value.get_u16();
            }
            _ => {}
        }
    }
    Open {
        stamp: 0,
        packet_size: connect.block,
        min_release: 0,
        terms,
        object: Some(object),
        proof: None,
    }
}
