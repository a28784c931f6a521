//! XTP over UDP.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use layercast_core::Span;
use layercast_net::XtpNode;
use layercast_wire::{Payload, XtpService};
use layercast_xtp::{ContextId, SendOptions, XtpConfig, XtpEvent, XtpRate, XtpStats};

use crate::load::{Load, Taken};
use crate::{Failed, ready};

pub const PORT: u16 = 7_000;
/// Bytes on their way, or not read. A loss is repaired after a round trip, in which the rest must continue: twice what
/// 92 Mbit/s and 43 ms take, and as much for what is lost again; less than the socket buffers of the system hold.
pub const WINDOW: u32 = 2 << 20;

fn config(node: &XtpNode, protocol: &str) -> Result<XtpConfig, Failed> {
    let config = XtpConfig {
        window: WINDOW,
        send_buffer: WINDOW,
        ..node.config(XtpService::STREAM)
    };
    Ok(match protocol {
        "xtp" => config,
        "xtp-loose" => XtpConfig {
            error_control: false,
            ..config
        },
        "xtp-open" => XtpConfig {
            error_control: false,
            checksum: false,
            ..config
        },
        _ => return Err(format!("no such protocol: {protocol}").into()),
    })
}

pub async fn take(address: SocketAddr, protocol: &str, taken: &mut Taken) -> Result<(), Failed> {
    let mut node = XtpNode::udp(address)?;
    let config = config(&node, protocol)?;
    node.listen(PORT, 1, config)?;
    ready(node.local_addr());
    loop {
        match node.event().await? {
            XtpEvent::Incoming(port) => {
                node.endpoint().accept(port);
            }
            XtpEvent::Readable(id) => read(&mut node, id, taken)?,
            XtpEvent::PeerClosed(id) => {
                read(&mut node, id, taken)?;
                taken.end();
                node.endpoint().close_write(id)?;
            }
            XtpEvent::Closed(_) => return Ok(()),
            XtpEvent::Failed(_, why) => return Err(why.into()),
            _ => {}
        }
    }
}

fn read(node: &mut XtpNode, id: ContextId, taken: &mut Taken) -> Result<(), Failed> {
    while let Some(chunk) = node.endpoint().receive(id, usize::MAX)? {
        taken.bytes(chunk.data.len());
        // In bulk messages have no ends.
        if let Payload::Bytes(bytes) = chunk.data
            && chunk.end_of_message
        {
            taken.messages(&bytes);
        }
    }
    Ok(())
}

pub async fn send(
    address: SocketAddr,
    protocol: &str,
    rate: u64,
    load: &mut Load,
) -> Result<XtpStats, Failed> {
    let mut node = XtpNode::udp((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let mut config = config(&node, protocol)?;
    config.out_limit = XtpRate {
        rate,
        // Of 4 ms: each is a wake-up.
        burst: rate / 250,
    };
    config.least_wait = Span::from_ms(50);
    let id = node.connect(address, PORT, config)?;
    while node.event().await? != XtpEvent::Connected(id) {}
    load.start();
    let how = SendOptions {
        end_of_message: load.is_paced(),
        ..SendOptions::default()
    };
    let mut rest = Bytes::new();
    let mut ended = false;
    loop {
        // Whatever fits goes immediately; then events, or the next message.
        while !rest.is_empty() || (!ended && !load.is_paced()) {
            if rest.is_empty() {
                match load.next().await {
                    Some(piece) => rest = piece,
                    None => {
                        ended = true;
                        node.endpoint().close_write(id)?;
                        break;
                    }
                }
            }
            let taken = node
                .endpoint()
                .send(id, &Payload::Bytes(rest.clone()), &how)?;
            rest = rest.slice(taken..);
            if taken == 0 {
                break;
            }
        }
        tokio::select! {
            event = node.event() => match event? {
                XtpEvent::Closed(_) => return Ok(node.stats()),
                XtpEvent::Failed(_, why) => return Err(why.into()),
                _ => {}
            },
            piece = load.next(), if load.is_paced() && rest.is_empty() && !ended => match piece {
                Some(piece) => rest = piece,
                None => {
                    ended = true;
                    node.endpoint().close_write(id)?;
                }
            },
        }
    }
}
