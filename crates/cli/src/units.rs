//! Quantities on the command line, written as in scenario files: `5s`, `10Mbit/s`, `256cells`.

use std::net::SocketAddrV4;

use layercast_core::{Level, Rate, Span};
use layercast_sim::scenario::units::{Quantity, QueueSize};

/// What `--port NAME=RATE,delay=..,queue=..,loss=..` says about the link to one neighbour.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedPort {
    /// The neighbour.
    pub name: String,
    /// Rate of the link.
    pub rate: Rate,
    /// Propagation delay that is added.
    pub delay: Span,
    /// Size of the queue.
    pub queue: Option<QueueSize>,
    /// Probability that a packet is lost.
    pub loss: f64,
}

/// What `--multicast GROUP:PORT=NAME,..` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Where the media go.
    pub group: SocketAddrV4,
    /// The neighbours that take them there.
    pub members: Vec<String>,
}

fn quantity<T: Quantity>(text: &str) -> Result<T, String> {
    T::parse(text).ok_or_else(|| format!("expected {}", T::ACCEPTED))
}

/// Reads a time such as `15s`.
pub fn span(text: &str) -> Result<Span, String> {
    quantity(text)
}

/// Reads a rate such as `10Mbit/s`.
pub fn rate(text: &str) -> Result<Rate, String> {
    match quantity(text)? {
        rate if rate == Rate::from_bps(0) => Err("a link of rate zero carries nothing".into()),
        rate => Ok(rate),
    }
}

/// Reads a rate such as `10Mbit/s`, or `800k` for short.
pub fn short_rate(text: &str) -> Result<Rate, String> {
    rate(&format!("{text}bit/s")).or_else(|_| rate(text))
}

/// Reads a level, 0 to 2.
pub fn level(text: &str) -> Result<Level, String> {
    let level = text.parse().ok().and_then(Level::new);
    level.ok_or_else(|| "expected 0 (BL), 1 (BL+E1) or 2 (BL+E1+E2)".into())
}

/// Reads `NAME=RATE[,delay=TIME][,queue=SIZE][,loss=P]`.
pub fn named_port(text: &str) -> Result<NamedPort, String> {
    let usage = "expected NAME=RATE[,delay=5ms][,queue=500ms][,loss=0.01]";
    let (name, rest) = text.split_once('=').ok_or(usage)?;
    let mut parts = rest.split(',');
    let mut port = NamedPort {
        name: name.trim().to_owned(),
        rate: rate(parts.next().unwrap_or_default())?,
        delay: Span::ZERO,
        queue: None,
        loss: 0.0,
    };
    if port.name.is_empty() {
        return Err(usage.into());
    }
    for part in parts {
        let (key, value) = part.split_once('=').ok_or(usage)?;
        match key.trim() {
            "delay" => port.delay = span(value)?,
            "queue" => port.queue = Some(quantity(value)?),
            "loss" => {
                let loss = value.trim().parse().ok();
                port.loss = loss
                    .filter(|p| (0.0..=1.0).contains(p))
                    .ok_or("loss is a probability between 0 and 1")?;
            }
            other => return Err(format!("{other} is not one of delay, queue, loss")),
        }
    }
    Ok(port)
}

/// Reads `GROUP:PORT=NAME,..`.
pub fn group(text: &str) -> Result<Group, String> {
    let usage = "expected GROUP:PORT=NAME,.. such as 239.1.1.1:7500=ann,bob";
    let (group, names) = text.split_once('=').ok_or(usage)?;
    let group: SocketAddrV4 = group.trim().parse().map_err(|_| usage)?;
    let members: Vec<String> = names
        .split(',')
        .map(|name| name.trim().to_owned())
        .collect();
    if !group.ip().is_multicast() || members.iter().any(String::is_empty) {
        return Err(usage.into());
    }
    Ok(Group { group, members })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_read_with_all_its_parts() {
        let port = named_port("rook=10Mbit/s,delay=2ms,queue=64cells,loss=0.01").unwrap();
        assert_eq!(port.name, "rook");
        assert_eq!(port.rate, Rate::from_bps(10_000_000));
        assert_eq!(port.delay, Span::from_ms(2));
        assert_eq!(port.queue, Some(QueueSize::Cells(64)));
        assert_eq!(port.loss, 0.01);
    }

    #[test]
    fn wrong_ports_say_what_is_expected() {
        for (text, expected) in [
            ("rook", "NAME=RATE"),
            ("=5Mbit/s", "NAME=RATE"),
            ("rook=fast", "a rate like"),
            ("rook=0bit/s", "carries nothing"),
            ("rook=5Mbit/s,loss=2", "between 0 and 1"),
            ("rook=5Mbit/s,colour=red", "delay, queue, loss"),
        ] {
            let error = named_port(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_group_has_members() {
        let read = group("239.1.1.1:7500=ann, bob").unwrap();
        assert_eq!(read.group, "239.1.1.1:7500".parse().unwrap());
        assert_eq!(read.members, ["ann", "bob"]);
        for text in [
            "239.1.1.1:7500",
            "239.1.1.1=ann",
            "10.0.0.1:7500=ann",
            "239.1.1.1:7500=",
        ] {
            assert!(group(text).is_err(), "{text}");
        }
    }
}
